import { type Command, forEachChild, type SyntaxNode, type Word } from 'unbash'
import { parseScript } from '../policy/shell/words/parse.ts'

/** They run the file that they are given first. */
const interpreters: ReadonlySet<string> = new Set([
  ...['sh', 'bash', 'dash', 'zsh', 'node', 'deno', 'bun', 'python', 'python3', 'ruby', 'perl'],
])

export interface PinnedPrograms {
  script: string
  /** Programs by a relative path that are not of the ability: whatever the workspace has there will run. */
  unpinned: string[]
}

/**
 * A script whose programs by a relative path are those of the ability's folder, where it has them: what was approved is
 * what runs, whatever lies at the same path of the workspace. A script that cannot be read stays as it is.
 */
export function usePinnedPrograms(
  script: string,
  files: readonly string[],
  folder: string,
): PinnedPrograms {
  const parsed = parseScript(script)
  if (parsed === null || parsed.bodies.size > 0) return { script, unpinned: [] }
  const known = new Set(files)
  const words = parsed.statements.flatMap(programWords).filter((word) => isAsWritten(script, word))
  const pinned = words.filter(({ value }) => known.has(plain(value)))
  const unpinned = words.filter((word) => !pinned.includes(word)).map(({ value }) => value)
  const changed = pinned
    .toSorted((a, b) => b.pos - a.pos)
    .reduce(
      (text, { pos, end, value }) =>
        text.slice(0, pos) + quotedPath(`${folder}/${plain(value)}`) + text.slice(end),
      script,
    )
  return { script: changed, unpinned: [...new Set(unpinned)] }
}

/** Written out, so that whoever judges the script knows what it runs. */
const quotedPath = (path: string): string =>
  /^[A-Za-z0-9._/-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`

const plain = (path: string): string => path.replace(/^(?:\.\/)+/, '')

/** A path of its own characters, without anything that a shell would read otherwise. */
const isAsWritten = (script: string, { pos, end, value }: Word): boolean =>
  [value, `"${value}"`, `'${value}'`].includes(script.slice(pos, end)) &&
  /^[A-Za-z0-9._][A-Za-z0-9._/-]*$/.test(value) &&
  value.includes('/') &&
  !value.split('/').includes('..')

function programWords(node: SyntaxNode): Word[] {
  // Text between escaped backticks counts its positions from its own beginning.
  if (node.type === 'Script' && node.source !== undefined) return []
  const own = node.type === 'Command' ? wordsOf(node) : []
  const found = [...own]
  forEachChild(node, (child) => void found.push(...programWords(child)))
  return found
}

function wordsOf({ name, args }: Command): Word[] {
  if (name === undefined) return []
  if (!interpreters.has(name.value)) return [name]
  const [first] = args
  return first?.type === 'Word' && !first.value.startsWith('-') ? [first] : []
}
