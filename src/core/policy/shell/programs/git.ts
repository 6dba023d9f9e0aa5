import { hostOf, originHost, unknownHost } from '../../matching/hosts.ts'
import { isSecretPath, resolvePath } from '../../matching/paths.ts'
import { gitOptions } from '../known/git.ts'
import { type Arg, hole, isKnown } from '../words/arg.ts'
import { ambiguous, destructive, external, type Finding, type Nested } from '../words/finding.ts'
import { hasFlag, optionSet, type Parsed, parseOptions, valuesOf } from '../words/options.ts'

export interface GitUse {
  /** Without the options before the subcommand. */
  words: readonly Arg[]
  findings: Finding[]
  hosts: string[]
  /** It reaches another place than the repository's own remote. */
  isNetwork: boolean
  nested: Nested[]
  secret: boolean
  /** Where it works, from where it is started: `-C`. */
  folders: (from: readonly string[]) => readonly string[]
}

/** Settings that run nothing and lead nowhere else, each by its whole name. */
const harmlessSettings: readonly RegExp[] = [
  /^(?:user|author|committer)\.(?:name|email|signingkey|useconfigonly)(?:=|$)/i,
  /^(?:color|advice|status|column|i18n|pack|feature|index)(?:\.[\w.-]{1,60})?(?:=|$)/i,
  /^gc\.(?:auto|autodetach|autopacklimit|aggressivedepth|aggressivewindow|cruftpacks|packrefs|writecommitgraph)(?:=|$)/i,
  /^(?:init\.defaultbranch|safe\.directory|help\.(?:autocorrect|format)|tag\.(?:gpgsign|sort))(?:=|$)/i,
  /^log\.(?:date|decorate|follow|abbrevcommit|showroot|mailmap|graphcolors)(?:=|$)/i,
  /^branch\.(?:autosetupmerge|autosetuprebase|sort)(?:=|$)/i,
  /^branch\.[^=\s]{1,200}\.(?:rebase|description|merge)(?:=|$)/i,
  /^branch\.[^=\s]{1,200}\.(?:push)?remote(?:=(?:origin|\.))?$/i,
  /^(?:push\.(?:default|autosetupremote|followtags)|pull\.(?:rebase|ff))(?:=|$)/i,
  /^fetch\.(?:prune|prunetags|parallel|writecommitgraph)(?:=|$)/i,
  /^rebase\.(?:autosquash|autostash|updaterefs|stat|abbreviatecommands)(?:=|$)/i,
  /^merge\.(?:ff|conflictstyle|renames|renamelimit|stat|log|directoryrenames|verbosity)(?:=|$)/i,
  /^diff\.(?:algorithm|renames|renamelimit|context|interhunkcontext|noprefix|mnemonicprefix|colormoved)(?:=|$)/i,
  /^commit\.(?:gpgsign|verbose|template|cleanup|status)(?:=|$)/i,
  /^core\.(?:quotepath|autocrlf|eol|filemode|ignorecase|abbrev|safecrlf|longpaths|preloadindex|untrackedcache|commentchar)(?:=|$)/i,
  /^http\.(?:postbuffer|version|lowspeed\w{1,20})(?:=|$)/i,
]
/** A command, or a transport that is one. */
const runningValue = /=\s{0,4}(?:!|ext::)/i
const globalValues = optionSet('C c git-dir work-tree namespace super-prefix config-env exec-path')
/** Per subcommand: in a cluster such as `-uf`, a letter that takes a value would hide the next one. */
const subcommandValues: Record<string, ReadonlySet<string>> = {
  commit: optionSet('m F C c t message file author date template fixup squash'),
  merge: optionSet('m F s X message file strategy strategy-option'),
  pull: optionSet('s X strategy strategy-option'),
  'cherry-pick': optionSet('m X strategy strategy-option'),
  revert: optionSet('m X strategy strategy-option'),
  rebase: optionSet('x s X C exec onto strategy strategy-option'),
  log: optionSet('S G L n grep author since until format pretty max-count'),
  clone: optionSet('b u o c j branch upload-pack origin config depth reference'),
  push: optionSet('o receive-pack exec repo push-option'),
  fetch: optionSet('j o upload-pack depth'),
  checkout: optionSet('b B'),
  switch: optionSet('c C'),
  restore: optionSet('s source'),
  clean: optionSet('e exclude'),
  tag: optionSet('m F u message file'),
  stash: optionSet('m message'),
  config: optionSet('f file blob type default'),
  grep: optionSet('e f'),
}
const noValues = optionSet('')

export function gitUse(args: readonly Arg[]): GitUse {
  const globals = parseOptions(args, globalValues, true)
  const [sub, ...rest] = globals.operands
  const name = sub?.value ?? ''
  const values = Object.hasOwn(subcommandValues, name) ? subcommandValues[name] : noValues
  const parsed = parseOptions(rest, values)
  const hosts = reaches.has(name) ? hostsOf(name, parsed.operands, rest) : []
  return {
    words: globals.operands,
    findings: [
      ...globalFindings(globals),
      ...(sub && !subcommands.has(name)
        ? [ambiguous('Not a command of git: an alias may run anything')]
        : []),
      ...subFindings(name, parsed, rest),
      ...optionFindings(name, globals, parsed, rest),
      ...(reaches.has(name) ? transportFindings(parsed, rest) : []),
    ],
    hosts,
    isNetwork: hosts.some((host) => host !== originHost),
    nested: nestedOf(name, parsed, rest),
    secret:
      name.startsWith('credential') ||
      (name === 'config' && parsed.operands.some(({ value }) => credentialKeys.test(value))),
    folders: (from) =>
      valuesOf(globals, 'C')
        .filter(isKnown)
        .reduce((at, { value }) => at.map((folder) => resolvePath(folder, value)), from),
  }
}

const credentialKeys = /token|passw|secret|credential(?!\.helper)|extraheader/i

const subcommands = new Set(
  'add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-ref-format checkout checkout-index cherry cherry-pick clean clone commit commit-graph commit-tree config count-objects credential credential-cache credential-store describe diff diff-files diff-index diff-tree difftool fast-export fetch filter-branch filter-repo for-each-ref format-patch fsck gc grep hash-object help init interpret-trailers lfs log ls-files ls-remote ls-tree maintenance merge merge-base merge-file merge-tree mergetool mktree mv name-rev notes p4 pack-objects prune pull push range-diff read-tree rebase reflog remote repack replace request-pull rerere reset restore rev-list rev-parse revert rm send-email shortlog show show-branch show-ref sparse-checkout stage stash status stripspace submodule subtree svn switch symbolic-ref tag update-index update-ref var verify-commit verify-tag version whatchanged worktree write-tree'.split(
    ' ',
  ),
)

function globalFindings(globals: Parsed): Finding[] {
  const settings = valuesOf(globals, 'c', 'config-env').filter(({ value }) => !isHarmless(value))
  const trees = valuesOf(globals, 'git-dir').filter(
    ({ value }) => !/^(?:\.\/)?\.git\/?$/.test(value),
  )
  const runs = settings.length + trees.length > 0 || hasFlag(globals, '--exec-path', '--config-env')
  return runs ? [ambiguous('A git setting decides what other programs run')] : []
}

const isHarmless = (setting: string): boolean =>
  (harmlessSettings.some((known) => known.test(setting)) && !runningValue.test(setting)) ||
  /^core\.pager=(?:cat|less)?$/i.test(setting)

/** A folder as a whole, a pattern, or git's own way to say so. */
const namesAll = (operands: readonly Arg[]) =>
  operands.some(({ value }) => /^[./]+$|^:|\/$|[*?[]/.test(value))

/** What is lost cannot be brought back from the repository. */
/** A branch that may be there is put elsewhere: what it alone had is lost to all but the log of references. */
const movesBranch = (parsed: Parsed, letter: string): boolean =>
  parsed.flags.has(letter) && parsed.operands.length > 0

/** `git fetch . +main:x`: a branch of one's own is put elsewhere, or goes if there is none of that name. */
function movesLocal(parsed: Parsed): boolean {
  const forced = hasFlag(parsed, 'f', 'p', 'P', '--force', '--prune', '--prune-tags')
  return parsed.operands.some(({ value }) => {
    const to = /^[^:]{0,200}:(?!\/\/)(.+)$/.exec(value)?.[1]
    return to !== undefined && !to.startsWith('refs/remotes/') && (forced || value.startsWith('+'))
  })
}

const losses: Record<string, (parsed: Parsed, args: readonly Arg[]) => boolean> = {
  reset: (parsed) => hasFlag(parsed, '--hard', '--merge'),
  clean: (parsed) => !hasFlag(parsed, 'n', '--dry-run') || parsed.flags.has('--no-dry-run'),
  checkout: (parsed) =>
    hasFlag(parsed, 'f', '--force') || namesAll(parsed.operands) || movesBranch(parsed, 'B'),
  restore: (parsed) =>
    namesAll(parsed.operands) &&
    (!hasFlag(parsed, 'S', '--staged') || hasFlag(parsed, 'W', '--worktree')),
  switch: (parsed) =>
    hasFlag(parsed, 'f', '--force', '--discard-changes') || movesBranch(parsed, 'C'),
  branch: (parsed) =>
    hasFlag(parsed, 'D', 'f', '--force') ||
    (hasFlag(parsed, 'M', 'C') && parsed.operands.length > 1),
  fetch: movesLocal,
  pull: movesLocal,
  'symbolic-ref': (parsed) =>
    hasFlag(parsed, 'd', '--delete') ||
    (parsed.operands.length > 1 && parsed.operands[0]?.value !== 'HEAD'),
  notes: (_, args) => /^(?:remove|prune)$/.test(args[0]?.value ?? ''),
  replace: (parsed) => hasFlag(parsed, 'd', '--delete', 'f', '--force'),
  stash: (_, args) => ['drop', 'clear'].includes(args[0]?.value ?? ''),
  reflog: (_, args) => ['expire', 'delete', 'drop'].includes(args[0]?.value ?? ''),
  gc: (parsed) => hasFlag(parsed, '--prune'),
  prune: () => true,
  'filter-branch': () => true,
  'filter-repo': () => true,
  'update-ref': (parsed) => hasFlag(parsed, 'd', '--stdin') || parsed.operands.length === 2,
  tag: (parsed) => hasFlag(parsed, 'd', '--delete', 'f', '--force'),
  rm: (parsed) => hasFlag(parsed, 'r') && hasFlag(parsed, 'f', '--force'),
  worktree: (parsed, args) => args[0]?.value === 'remove' && hasFlag(parsed, 'f', '--force'),
  submodule: (parsed, args) =>
    args[0]?.value === 'deinit' && hasFlag(parsed, 'f', '--force', '--all'),
  'checkout-index': (parsed) => hasFlag(parsed, 'f', '--force'),
  'read-tree': (parsed) => hasFlag(parsed, '--reset', 'u'),
  push: (parsed, args) =>
    hasFlag(parsed, 'f', 'd', '--force', '--force-with-lease', '--delete', '--mirror', '--prune') ||
    args.some(({ value }) => /^[+:]./.test(value)),
}

function subFindings(name: string, parsed: Parsed, args: readonly Arg[]): Finding[] {
  const findings: Finding[] = []
  const loses = Object.hasOwn(losses, name) ? losses[name] : undefined
  if (loses?.(parsed, args)) findings.push(destructive(`"git ${name}" discards work for good`))
  const pushes = ['lfs', 'subtree'].includes(name) && args[0]?.value === 'push'
  if (pushes || ['push', 'send-email', 'svn', 'p4'].includes(name))
    findings.push(external(`"git ${name}" publishes`))
  if (takesIgnored(name, parsed))
    findings.push(ambiguous('It takes in ignored files, and with them files of secrets'))
  if (mayRevertFolder(name, parsed, args))
    findings.push(ambiguous('It may discard the changes of a whole folder'))
  if (name === 'config' && (setsProgram(parsed) || changesUnseen(parsed)))
    findings.push(ambiguous('A git setting decides what other programs run'))
  if (runsProgram(name, parsed)) findings.push(ambiguous('An option says what is run'))
  if (runsUnknown(name, parsed, args))
    findings.push(ambiguous('What is run is known only when it runs'))
  return findings
}

const takesIgnored = (name: string, parsed: Parsed): boolean =>
  (name === 'grep' && hasFlag(parsed, '--no-index', '--untracked')) ||
  (name === 'stash' && hasFlag(parsed, 'a', '--all')) ||
  (name === 'add' && hasFlag(parsed, 'f', '--force')) ||
  // What is moved can be shown under another name.
  (/^(?:mv|stash)$/.test(name) && parsed.operands.some(({ value }) => isSecretPath(`/${value}`))) ||
  (name === 'cat-file' && ['--batch', '--batch-command'].some((flag) => parsed.flags.has(flag)))

/** A path without an ending may be a folder. */
function mayRevertFolder(name: string, parsed: Parsed, args: readonly Arg[]): boolean {
  const { operands } = parsed
  const isFolder = ({ value }: Arg) => !/\.\w+$/.test(value)
  if (name === 'restore') return operands.some(isFolder)
  if (name !== 'checkout') return false
  const at = args.findIndex(({ value }) => value === '--')
  if (at >= 0) return args.slice(at + 1).some(isFolder)
  // `git checkout HEAD src`
  return !hasFlag(parsed, '--orphan', 't', '--track', 'b', 'B') && operands.slice(1).some(isFolder)
}

const runsUnknown = (name: string, parsed: Parsed, args: readonly Arg[]): boolean =>
  name === 'rebase'
    ? !valuesOf(parsed, 'x', 'exec').every(isKnown)
    : /^(?:run|foreach)$/.test(args.find(({ value }) => !value.startsWith('-'))?.value ?? '') &&
      !args.every(isKnown)

const strategies = /^(?:ours|theirs|recursive|resolve|ort|octopus|subtree)$/

const runsProgram = (name: string, parsed: Parsed): boolean =>
  (name === 'difftool' && hasFlag(parsed, 'x', '--extcmd')) ||
  (name === 'grep' && hasFlag(parsed, 'O', '--open-files-in-pager')) ||
  (name === 'help' && hasFlag(parsed, 'w', '--web')) ||
  (name === 'maintenance' && parsed.operands[0]?.value !== 'run') ||
  // `git bisect view rm` is `git rm`.
  (name === 'bisect' &&
    /^(?:view|visualize)$/.test(parsed.operands[0]?.value ?? '') &&
    parsed.operands.length > 1) ||
  (name === 'lfs' && !/^(?:status|ls-files|track|untrack|version)$/.test(verbOf(parsed))) ||
  // Any other is a program of that name.
  (/^(?:merge|rebase|pull|cherry-pick|revert)$/.test(name) &&
    valuesOf(parsed, 's', 'strategy').some(({ value }) => !strategies.test(value)))

const verbOf = ({ operands }: Parsed): string => operands[0]?.value ?? ''

/** A section under another name is other settings; an editor is anything. */
const changesUnseen = (parsed: Parsed): boolean =>
  hasFlag(parsed, 'e', '--edit', '--rename-section', '--remove-section') ||
  /^(?:edit|rename-section|remove-section)$/.test(verbOf(parsed))

const setsProgram = ({ operands, flags }: Parsed): boolean => {
  if (
    ['--get', '--get-all', '--list', 'l', '--unset', '--get-regexp'].some((flag) => flags.has(flag))
  )
    return false
  const [first, second, third] = operands.map(({ value }) => value)
  const [key, value] = first === 'set' ? [second, third] : [first, second]
  return (
    key !== undefined &&
    value !== undefined &&
    !['get', 'list', 'unset'].includes(first ?? '') &&
    !isHarmless(`${key}=${value}`)
  )
}

/** Git takes any beginning of an option for the whole, so only whole ones that are known are clear. */
function optionFindings(
  name: string,
  globals: Parsed,
  parsed: Parsed,
  args: readonly Arg[],
): Finding[] {
  const long = [...globals.flags, ...parsed.flags].find(
    (flag) =>
      flag.startsWith('--') &&
      !gitOptions.has(flag.slice(2)) &&
      !gitOptions.has(flag.slice(2).replace(/^no-/, '')),
  )
  const runs = name === 'submodule' || name === 'bisect'
  const loose =
    !runs &&
    (args.some(({ splits }) => splits) ||
      parsed.operands.some(({ value }) => value.startsWith(hole)))
  return [
    ...(long ? [ambiguous(`"${long.slice(0, 40)}" is not an option that is known of git`)] : []),
    ...(loose ? [ambiguous('An argument is known only when it runs')] : []),
  ]
}

const reaches = new Set(
  'clone fetch pull push ls-remote submodule remote archive request-pull send-email svn p4 lfs subtree fetch-pack send-pack http-fetch bundle'.split(
    ' ',
  ),
)

function transportFindings(parsed: Parsed, args: readonly Arg[]): Finding[] {
  const runs =
    hasFlag(parsed, '--upload-pack', '--receive-pack', '--exec') ||
    valuesOf(parsed, 'u', 'c', 'config').some(({ value }) => !isHarmless(value)) ||
    args.some(({ value }) => /^ext::/i.test(value))
  return runs ? [ambiguous('An option says what is run for the connection')] : []
}

/** By the name of a remote, or by a URL. */
function hostsOf(name: string, operands: readonly Arg[], args: readonly Arg[]): string[] {
  const hosts = operands.flatMap(({ value }) => {
    if (/^(?:https?|ssh|git|ftps?):\/\//i.test(value))
      return [hostOf(value.replace(/^(ssh:\/\/)[\w.-]+@/i, '$1')) ?? unknownHost]
    if (/^[\w+-]+::|^[a-z][\w+.-]*:\/\//i.test(value)) return [unknownHost]
    const short = /^(?:[\w.-]+@)?([\w.-]+):(?!\/\/)/.exec(value)?.[1]
    if (value.includes('@') && short) return [short.toLowerCase()]
    return short?.includes('.') ? [short.toLowerCase()] : []
  })
  if (hosts.length > 0) return hosts
  const [first, second] = operands.map(({ value }) => value)
  if (name === 'submodule') return first === 'update' || first === 'add' ? [unknownHost] : []
  if (name === 'remote') {
    if (first === 'update' || second === 'update') return [unknownHost]
    return first === 'add' || first === 'set-url' ? [unknownHost] : []
  }
  if (name === 'lfs' || name === 'subtree')
    return /^(?:fetch|pull|push|add|clone)$/.test(first ?? '') ? [unknownHost] : []
  if (name === 'archive')
    return args.some(({ value }) => value.startsWith('--remote')) ? [unknownHost] : []
  if (!/^(?:fetch|pull|push|ls-remote|clone)$/.test(name)) return []
  const leads = args.some(({ value }) => /^--(?:recurs|bundle-uri)/.test(value))
  if (name === 'clone') return first !== undefined && isPath(first) && !leads ? [] : [unknownHost]
  if (leads) return [unknownHost]
  const usual =
    (first === undefined || first === 'origin') &&
    !args.some(({ value }) => /^--(?:all|multiple|repo)/.test(value))
  return [usual ? originHost : first !== undefined && isPath(first) ? originHost : unknownHost]
}

/** A repository in a folder: the boundary looks at it. */
const isPath = (value: string): boolean => /^[./]/.test(value) && !value.includes(hole)

function nestedOf(name: string, parsed: Parsed, args: readonly Arg[]): Nested[] {
  const script = (text: Arg | undefined): Nested[] =>
    text && isKnown(text) ? [{ kind: 'script', text: text.value }] : []
  if (name === 'rebase') return valuesOf(parsed, 'x', 'exec').flatMap(script)
  if (name === 'bisect' && args[0]?.value === 'run')
    return args.length > 1 ? [{ kind: 'command', words: args.slice(1), fed: false }] : []
  if (name !== 'submodule') return []
  const at = args.findIndex(({ value }) => value === 'foreach')
  const words = at < 0 ? [] : args.slice(at + 1).filter(({ value }) => !value.startsWith('--'))
  return words.length === 1
    ? script(words[0])
    : words.length > 1
      ? [{ kind: 'command', words, fed: false }]
      : []
}
