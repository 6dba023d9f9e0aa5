import { namedByPatch } from '../../contract/patch-headings.ts'

/** OpenCode's own format. A heading without a name, or none at all: it cannot be told. */
export function patchPaths(text: string): string[] | null {
  const paths = namedByPatch(text)
  return paths.length > 0 && !paths.includes('') ? paths : null
}

const heading = /^(?:--- |\+\+\+ |rename (?:from|to) |copy (?:from|to) )(.*)$/

/** A unified diff, of git or of diff. Names in quotes hold escapes, so they cannot be told. */
export function diffPaths(text: string): string[] | null {
  const paths = new Set<string>()
  for (const line of text.split('\n')) {
    const name = heading.exec(line)?.[1]?.split('\t')[0]?.trim()
    if (name === undefined || name === '/dev/null') continue
    if (name === '' || name.startsWith('"')) return null
    paths.add(/^(?:---|\+\+\+)/.test(line) ? name.replace(/^[ab]\//, '') : name)
  }
  return paths.size > 0 ? [...paths] : null
}
