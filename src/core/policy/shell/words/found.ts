import type { Arg } from './arg.ts'
import { hasFlag, optionSet, parseOptions, valuesOf } from './options.ts'
import { namesSecretPath } from '../../../../contract/secret-paths.ts'
import { globWithoutBrackets, matchesText, textGlob } from '../../matching/text-globs.ts'

const findNames = /^-i?name$/
const secretSamples = [
  ...['.env', '.envrc', '.netrc', '.dev.vars', 'x.env', 'x.key', 'x.p12', 'x.pfx', 'x.jks'],
  ...['x.tfstate', 'x.tfstate.backup', 'x.auto.tfvars'],
]

/** Whether a pattern for names is for files of one ending, and none of them holds credentials. */
export function narrowsFound(pattern: string): boolean {
  const name = globWithoutBrackets(pattern)
  const isSecret = secretSamples.some((secret) => matchesText(textGlob(name), secret))
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

export const fdValues = optionSet(
  'e extension E exclude t type d max-depth min-depth exact-depth c color j threads S size changed-within changed-before max-results o owner',
)
const secretWord =
  /env|key|secret|credential|netrc|token|pass|id_|tfstate|tfvars|kube|vault|p12|pfx|jks|pem|service.?account|dev.?vars/i

/** Whether `fd` with these arguments finds files of secrets: it skips hidden ones unless it is told not to. */
export function isSecretFound(args: readonly Arg[]): boolean {
  const parsed = parseOptions(args, fdValues)
  const endings = valuesOf(parsed, 'e', 'extension').map(({ value }) => value)
  const [pattern] = parsed.operands
  if ([...endings, pattern?.value ?? ''].some((word) => secretWord.test(word))) return true
  const isHidden =
    hasFlag(parsed, 'H', 'I', 'u', '--hidden', '--unrestricted') ||
    [...parsed.flags].some((flag) => flag.startsWith('--no-ignore'))
  const isNarrow = endings.length > 0 && endings.every((one) => narrowsFound(`*.${one}`))
  return isHidden && !isNarrow
}

/** Programs that show, pack or send what they are given. */
const shows =
  /^(?:cat|tac|nl|rev|head|tail|less|more|bat|batcat|view|[efz]?grep|rgrep|rg|ag|ack|g?sed|[gmn]?awk|cut|sort|uniq|tr|comm|join|pr|fmt|expand|unexpand|csplit|split|iconv|strings|base32|base64|xxd|od|hd|hexdump|diff|cmp|cp|mv|install|ln|rsync|scp|nc|tar|zip|7z|gzip|bzip2|xz|zstd|paste|fold|column|tee|dd|curl|wget|https?|xh|jq|gojq|jaq|yq|pandoc|xmllint|perl|openssl|gpg|shuf|tsort)$/

/** Whether a command that `find` runs for each file shows it, also behind others. appends: the name comes unasked. */
export const showsFound = (words: readonly string[], appends = false): boolean =>
  words.some((word) => shows.test(word.replace(/^.*\//, ''))) &&
  (appends || words.some((word) => word.includes('{}')))
