import type { ProposalDiff } from '../../../contract/skill-proposal.ts'
import type { SkillSource } from '../../../contract/skill.ts'
import type { Saying } from './versions.ts'

type Said = Omit<Saying, 'sha256'>

const maxShown = 8000

/** For people who decide: what changes, in one run of lines. Deterministic, and in proportion to the texts. */
export function proposalDiff(before: Said | null, after: Said): ProposalDiff {
  const was = before ?? { description: '', compatibility: '', source: null }
  const [old, now] = [linesOf(was.source), linesOf(after.source)]
  const start = common(old, now)
  const end = common(old.slice(start).toReversed(), now.slice(start).toReversed())
  const removed = old.slice(start, old.length - end)
  const added = now.slice(start, now.length - end)
  const lines = [
    ...field('description', was.description, after.description),
    ...field('compatibility', was.compatibility, after.compatibility),
    ...(removed.length + added.length > 0 ? [`@@ line ${start + 1} @@`] : []),
    ...removed.map((line) => `-${line}`),
    ...added.map((line) => `+${line}`),
  ].join('\n')
  return {
    changed: (['description', 'compatibility', 'source'] as const).filter(
      (name) => textOf(was[name]) !== textOf(after[name]),
    ),
    ...{ added: added.length, removed: removed.length },
    ...{ lines: cut(lines), truncated: lines.length > maxShown },
  }
}

const field = (name: string, was: string, now: string): string[] =>
  was === now ? [] : [`-${name}: ${was}`, `+${name}: ${now}`]

const textOf = (value: string | SkillSource | null): string => JSON.stringify(value)

function linesOf(source: SkillSource | null): string[] {
  if (source === null) return []
  if (source.kind === 'inline') return source.content.split('\n')
  return [source.kind === 'path' ? `path: ${source.path}` : `url: ${source.url}`]
}

/** How many lines both begin with. */
function common(a: readonly string[], b: readonly string[]): number {
  const at = a.findIndex((line, index) => line !== b[index])
  return at === -1 ? a.length : at
}

/** Half a surrogate pair is not stored. */
const cut = (text: string): string => text.slice(0, maxShown).toWellFormed()
