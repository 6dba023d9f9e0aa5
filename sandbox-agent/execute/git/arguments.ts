/**
 * What a git command does to the workspace. Reading looks at the workspace itself, writing at files of the attempt's
 * own.
 */
type GitUse = 'reads' | 'writes'

const uses: Record<string, GitUse> = {
  ...from('reads', 'status log show diff blame grep ls-files ls-tree rev-parse rev-list describe'),
  ...from(
    'reads',
    'shortlog cat-file merge-base name-rev for-each-ref show-ref diff-tree branch tag',
  ),
  ...from('writes', 'add rm mv commit merge revert cherry-pick restore'),
}

function from(use: GitUse, names: string): Record<string, GitUse> {
  return Object.fromEntries(names.split(' ').map((name) => [name, use]))
}

/** They run a program, or read or write a file that is named and not part of the repository. */
const refusedOptions = [
  '--amend', // a merge cannot bring a changed past
  '--config-env',
  '--contents',
  '--exclude-from',
  '--exec',
  '--exec-path',
  '--ext-diff',
  '--file',
  '--git-dir',
  '--ignore-submodules',
  '--ignore-revs-file',
  '--no-index',
  '--open-files-in-pager',
  '--output',
  '--pathspec-from-file',
  '--receive-pack',
  '--recurse-submodules',
  '--submodule',
  '--template',
  '--textconv',
  '--upload-pack',
  '--work-tree',
]

/** The same in one letter, and the letters that take what follows them as their value. */
const letters: Record<string, { refused: string; valued: string }> = {
  blame: { refused: 'S', valued: 'LCM' },
  commit: { refused: 'Ft', valued: 'mcCuS' },
  grep: { refused: 'Of', valued: 'eABCm' },
  'ls-files': { refused: 'X', valued: 'x' },
  merge: { refused: 'F', valued: 'msXS' },
  'cherry-pick': { refused: '', valued: 'mXS' },
}

/** A reference made here would be lost with the attempt's git folder. The first ones list even if a name follows. */
const listingNames = [
  '-l',
  '--list',
  '-n',
  '--contains',
  '--no-contains',
  '--merged',
  '--no-merged',
]
const listing = [
  '-a',
  '--all',
  '-r',
  '--remotes',
  '-v',
  '-vv',
  '--show-current',
  '--sort',
  '--format',
]

/**
 * What git may be asked to do. Options before the command, aliases and everything that talks to a remote are refused.
 */
export function checkGitArguments(args: readonly string[]): GitUse {
  const [command = '', ...rest] = args
  const use = Object.hasOwn(uses, command) ? uses[command] : undefined
  if (use === undefined)
    throw refusal(command, `only ${Object.keys(uses).sort().join(', ')} are carried out`)
  const end = rest.indexOf('--')
  const options = end === -1 ? rest : rest.slice(0, end)
  for (const option of options) checkOption(command, option)
  if (command === 'diff') for (const path of rest) checkDiffPath(path)
  if (command === 'branch' || command === 'tag') checkListing(command, rest)
  return use
}

/** A repository inside the workspace has settings of its own, and git would start itself there to look at its files. */
const quietDiff = [
  '--no-ext-diff',
  '--no-textconv',
  '--submodule=short',
  '--ignore-submodules=dirty',
]
const quiet: Record<string, readonly string[]> = {
  status: ['--ignore-submodules=dirty'],
  diff: quietDiff,
  log: quietDiff,
  show: quietDiff,
}

/** With what keeps git from running programs of the repository, or of one inside of it. */
export function quietGitArguments([command = '', ...rest]: readonly string[]): string[] {
  return [command, ...(Object.hasOwn(quiet, command) ? (quiet[command] ?? []) : []), ...rest]
}

const refusal = (command: string, why: string) => new Error(`Cannot run git "${command}": ${why}`)

function checkOption(command: string, option: string): void {
  if (option.startsWith('--')) {
    const name = option.split('=')[0] as string
    // Git takes any beginning of an option for the whole.
    if (name.length > 2 && refusedOptions.some((refused) => refused.startsWith(name)))
      throw refusal(command, `the option "${name}" is refused`)
    return
  }
  const { refused, valued } = letters[command] ?? { refused: '', valued: '' }
  if (!/^-[A-Za-z]/.test(option)) return
  for (const letter of option.slice(1)) {
    if (refused.includes(letter)) throw refusal(command, `the option "-${letter}" is refused`)
    if (valued.includes(letter)) return
  }
}

/** With one path outside, `diff` compares any two files of the machine. */
function checkDiffPath(path: string): void {
  if (path.startsWith('/') || path.split('/').includes('..'))
    throw refusal('diff', `"${path}" is outside the workspace`)
}

function checkListing(command: string, rest: readonly string[]): void {
  const options = rest
    .filter((arg) => arg.startsWith('-'))
    .map((arg) => arg.split('=')[0] as string)
  const known = options.every((option) => [...listing, ...listingNames].includes(option))
  const named = options.length < rest.length
  if (!known || (named && !listingNames.includes(options[0] ?? '')))
    throw refusal(command, 'only listing is carried out')
}
