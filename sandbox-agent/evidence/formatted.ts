import type { OpenCode } from '../opencode/opencode.ts'

const patienceMs = 2000

/** The endings of files that a formatter of OpenCode rewrites after a tool has written them. Null: it does not say. */
export async function formattedBy(opencode: Pick<OpenCode, 'request'>): Promise<string[] | null> {
  try {
    const answer = await opencode.request('GET', '/formatter', undefined, patienceMs)
    return Array.isArray(answer) ? answer.flatMap(endingsOf) : null
  } catch {
    return null
  }
}

/** A formatter that says nothing of its endings may rewrite anything. */
function endingsOf(formatter: unknown): string[] {
  const { enabled, extensions } = (formatter ?? {}) as { enabled?: unknown; extensions?: unknown }
  if (enabled === false) return []
  if (!Array.isArray(extensions)) throw new Error('A formatter without endings')
  return extensions.map(String).filter((ending) => ending.length <= 40)
}
