/** The files that a patch names; null if none can be told. */

/** OpenCode's own format: `*** Update File: a.txt` */
export function patchPaths(text: string): string[] | null {
  const paths = [...text.matchAll(/^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$/gm)]
    .map(([, path]) => path?.trim() ?? '')
    .filter((path) => path !== '')
  return paths.length > 0 ? paths : null
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
