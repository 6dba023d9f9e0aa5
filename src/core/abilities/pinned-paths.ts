import { type Command, forEachChild, type SyntaxNode, type Word } from 'unbash'
import { parseShellScript } from '../policy/shell/words/parse.ts'

/** Programs that read the file that they are given first. */
const readers = new Set([
  'sh',
  'bash',
  'dash',
  'zsh',
  'python',
  'python3',
  'node',
  'ruby',
  'perl',
  'source',
  '.',
])

export interface PinnedScript {
  script: string
  /** Of the ability's own folder: they run from its copy. */
  pinned: string[]
  /** Of the workspace: whoever can write there decides what they do. */
  notPinned: string[]
}

/**
 * Relative paths of programs and of files that interpreters are given are tried in the ability's folder first: those that
 * it has become paths below `folder`, or $ABILITY_DIR where that is not a plain word. A script that cannot be read stays as it is.
 */
export function pinPaths(
  script: string,
  files: readonly string[],
  folder: string | null = null,
): PinnedScript {
  const parsed = parseShellScript(script)
  const words: Word[] = []
  for (const statement of parsed?.bodies.size === 0 ? parsed.statements : [])
    visit(statement, words)
  const found = words.flatMap((word) => {
    const path = plainPath(word)
    return path === null ? [] : [{ word, path, isOwn: files.includes(path) }]
  })
  const root = folder !== null && /^[\w@.+/-]+$/.test(folder) ? folder : '"$ABILITY_DIR"'
  let text = script
  for (const { word, path, isOwn } of found.toReversed())
    if (isOwn) text = `${text.slice(0, word.pos)}${root}/${path}${text.slice(word.end)}`
  const pathsOf = (own: boolean) => [
    ...new Set(found.filter(({ isOwn }) => isOwn === own).map(({ path }) => path)),
  ]
  return { script: text, pinned: pathsOf(true), notPinned: pathsOf(false) }
}

/** The same text, without a list of what it has: mostly none of the folder's files is named in it, and it need not be read. */
export const withPinnedPaths = (script: string, files: readonly string[], folder: string): string =>
  files.some((path) => script.includes(path.slice(path.lastIndexOf('/') + 1)))
    ? pinPaths(script, files, folder).script
    : script

function visit(node: SyntaxNode, words: Word[]): void {
  if (node.type === 'Command') words.push(...namesOf(node))
  // Of words only the substitutions could hold commands, and those are not followed.
  else if (node.type !== 'Word') forEachChild(node, (child) => visit(child, words))
}

function namesOf({ name, args }: Command): Word[] {
  if (name === undefined) return []
  const first = readers.has(name.value)
    ? args.find((one): one is Word => one.type === 'Word' && !one.value.startsWith('-'))
    : undefined
  return first === undefined ? [name] : [name, first]
}

/** Relative, without anything that the shell would replace; null: it is no such path. */
function plainPath({ text, value }: Word): string | null {
  if (text !== value || !/^[\w@.+-]+(\/[\w@.+-]+)+$/.test(text)) return null
  const parts = text.split('/').filter((part) => part !== '.')
  return parts.includes('..') || parts.length === 0 ? null : parts.join('/')
}
