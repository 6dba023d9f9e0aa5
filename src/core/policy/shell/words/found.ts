import { namesSecretPath } from '../../../../contract/secret-paths.ts'
import { globWithoutBrackets, matchesText, textGlob } from '../../matching/text-globs.ts'

const findNames = /^-i?name$/

/** Whether a pattern for names is for files of one ending, and none of them holds credentials. */
export function narrowsFound(pattern: string): boolean {
  const name = globWithoutBrackets(pattern)
  const isSecret = ['.env', '.envrc', '.netrc', 'x.key', 'x.p12', 'x.pfx', 'x.jks'].some((secret) =>
    matchesText(textGlob(name), secret),
  )
  return /[\w*-]\.\w{1,6}$/.test(name) && !isSecret && !namesSecretPath(`/${name}`)
}

/** What is not meant, or what is done besides. */
const opposites = /^(?:!|-not|,)$/

/** Each of them finds files by itself. */
function branchesOf(args: readonly string[]): string[][] {
  const branches: string[][] = [[]]
  for (const arg of args)
    if (/^-(?:o|or)$/.test(arg)) branches.push([])
    else branches.at(-1)?.push(arg)
  return branches
}

/** Whether `find` with these arguments finds every file of the folder where it starts. */
export function isAllFound(args: readonly string[]): boolean {
  const start = args.findIndex((arg) => /^[-(!]/.test(arg))
  const folders = start < 0 ? args : args.slice(0, start)
  const isWhole =
    folders.length === 0 || folders.some((folder) => /^[./*]*$|(?:^|\/)\.\.(?:\/|$)/.test(folder))
  const isNarrow = (branch: readonly string[]) =>
    branch.some((arg, at) => findNames.test(branch[at - 1] ?? '') && narrowsFound(arg))
  const narrowed = !args.some((arg) => opposites.test(arg)) && branchesOf(args).every(isNarrow)
  return isWhole && !narrowed
}

/** Programs that show or pack what they are given. */
const shows =
  /^(?:cat|tac|nl|rev|head|tail|less|more|bat|e?grep|fgrep|rg|sed|awk|cut|sort|uniq|strings|base64|xxd|od|hexdump|diff|cp|mv|tar|zip|gzip|paste|fold|column|tee|dd|curl)$/

/** Whether a command that `find` runs for each file shows it. */
export const showsFound = (words: readonly string[]): boolean =>
  shows.test(words[0]?.replace(/^.*\//, '') ?? '') && words.some((word) => word.includes('{}'))
