import { type CommandArgument, forEachChild, type Redirection, type SyntaxNode } from 'unbash'
import { isForeignShell, isShell } from '../../policy/shell/programs/shells.ts'
import { unwrapWrapper } from '../../policy/shell/programs/wrappers.ts'
import { literalArg } from '../../policy/shell/words/arg.ts'
import { isCodeOperand, operandsReadCode } from './code-operands.ts'

/**
 * Which words of a command are data, and which are read as code once more: by the shell itself, or by a program whose
 * argument or input is a script. Where it is not sure it says code. `slots.ts` asks it for each place of a value.
 */

/** They read their arguments as code, as names that may have code in their index, or as the program of a name. */
const evaluate = new Set([
  ...['eval', 'let', 'unset', 'read', 'mapfile', 'readarray', 'trap', 'source', '.', 'alias'],
  ...['declare', 'typeset', 'getopts', 'ssh', 'su', 'watch', 'parallel', 'at', 'batch', 'script'],
  ...['runuser', 'sg', 'hash', 'complete', 'compgen', 'enable', 'bind', 'jobs', 'fc', 'wait'],
  ...['export', 'readonly', 'local', 'crontab', 'tmux', 'screen', 'expect', 'entr', 'pkexec'],
  ...['chroot', 'nsenter', 'unshare', 'strace', 'ltrace', 'taskset', 'chrt', 'gosu'],
  ...['hyperfine', 'concurrently', 'mosh', 'rsh', 'autossh'],
])
/** Assignments behind them are as any other. */
const assign = new Set(['export', 'readonly', 'local', 'declare', 'typeset'])
/** They run what they read. */
const runners = new Set([
  'mosh',
  'rsh',
  'autossh',
  'ssh',
  'su',
  'runuser',
  'sg',
  'at',
  'batch',
  'parallel',
  'crontab',
])
const passOn = new Set([
  ...['command', 'builtin', 'exec', 'env', 'nohup', 'time', 'sudo', 'nice', 'timeout', 'xargs'],
  ...['setsid', 'stdbuf', 'doas', 'ionice', 'unbuffer', 'sshpass', 'vagrant', 'xvfb-run'],
  ...['dbus-run-session', 'faketime', 'caffeinate', 'proxychains', 'proxychains4', 'torsocks'],
  ...['firejail', 'setarch', 'prlimit', 'cpulimit', 'fakeroot', 'systemd-run', 'su-exec', 'rlwrap'],
])

/** A shell runs what is in them, takes its programs from there, or reads it as a number, which may have code in it. */
export const isCodeVariable = (name: string): boolean =>
  /^(OPTIND|S?RANDOM|HISTCMD|SECONDS|LINENO|BASH_ENV|ENV|PS[0-4]|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|PATH|IFS|LD_.*|BASH_FUNC_.*)$/.test(
    name,
  ) || programVariables.test(name)

/** What programs run, or read as options that make them run something. */
const programVariables =
  /^(GIT_(SSH|SSH_COMMAND|EXTERNAL_DIFF|PAGER|EDITOR|SEQUENCE_EDITOR|ASKPASS|PROXY_COMMAND|EXEC_PATH|TEMPLATE_DIR|CONFIG.*)|(MAN)?PAGER|EDITOR|VISUAL|BROWSER|LESS(OPEN|CLOSE)|SHELL|ZDOTDIR|(SSH|SUDO)_ASKPASS|NODE_(OPTIONS|PATH)|npm_config_.*|NPM_CONFIG_.*|PYTHON(STARTUP|PATH|HOME)|PERL5(OPT|LIB|DB)|RUBY(OPT|LIB)|(JDK_)?JAVA_(TOOL_)?OPTIONS|CLASSPATH|MAKEFLAGS|GNUMAKEFLAGS|GOFLAGS|RUSTC_WRAPPER|DYLD_.*)$/

/** `declare -i n=…` evaluates, and `local -n` makes a name of its value. */
export const evaluatesAssignments = ([name = '', ...words]: readonly string[]): boolean =>
  assign.has(name) ? words.some((word) => /^-.*[in]/.test(word)) : evaluate.has(name)

const baseName = (word: string): string => word.slice(word.lastIndexOf('/') + 1)

/** May the word at this place of a command hold a value: it is passed on, and not read as code. */
export function scriptCommandTakesData(
  names: readonly string[],
  at: number,
  isValue: (word: string) => boolean,
): boolean {
  // The time for each word grows with the words.
  if (names.length > maxWords) return false
  const program = programAt(names)
  if (at < program && isVariableFor(names, at)) return true
  if (at <= program || inScript(names, at)) return false
  const name = baseName(names[program] ?? '')
  if (evaluate.has(name)) return false
  // Whichever program that is, it may be a shell.
  if (/[$`]/.test(names[program] ?? '') && names.some((word) => /^-[a-zA-Z]*c$/.test(word)))
    return false
  // What stands between a wrapper and its program is not known of every wrapper.
  if (program > 0 && names.slice(1, at).some((word) => evaluate.has(baseName(word)))) return false
  // `-v NAME[INDEX]` evaluates the index, and a value may be the `-v`.
  if (names.slice(0, at).some((word) => baseName(word) === 'flock') && names.includes('-c'))
    return false
  const asksForName = names.some((word) => /^-[vR]/.test(word))
  if (name === 'printf' && (asksForName || at === program + 1))
    return !asksForName && !isValue(names[at] ?? '')
  if ((name === 'test' || name === '[') && (asksForName || isValue(names[at - 1] ?? '')))
    return false
  const inner = innerCommandAt(name, names, at)
  if (inner !== null) {
    if (hasShell(names) || at === inner) return false
    return scriptCommandTakesData(names.slice(inner), at - inner, isValue)
  }
  if (isForeignShell(name) && name !== 'fish') return false
  return (
    !isShellOperand(names, at) && !isCodeOperand([name, ...names.slice(program + 1)], at - program)
  )
}

const maxWords = 1000

/** `env NAME=value`: the value, if nothing runs it. */
function isVariableFor(names: readonly string[], at: number): boolean {
  const name = /^([A-Za-z_]\w*)=/.exec(names[at] ?? '')?.[1]
  const isSet = names.slice(0, at).some((word) => /^(?:env|sudo|cross-env)$/.test(baseName(word)))
  return name !== undefined && isSet && !isCodeVariable(name)
}

/** Where the command begins that `find -exec` or `fd -x` runs, if this place is in it. */
function innerCommandAt(name: string, names: readonly string[], at: number): number | null {
  const runs =
    name === 'find'
      ? /^-(exec|ok)(dir)?$/
      : /^fd(find)?$/.test(name)
        ? /^(-[xX]|--exec(-batch)?)$/
        : null
  if (runs === null) return null
  const from = names.findLastIndex((word, index) => index < at && runs.test(word))
  if (from < 0 || names.slice(from + 1, at).some((word) => /^[;+]$/.test(word))) return null
  return from + 1
}

/** Whether a program of which the policy knows that it runs a text, such as `watch` or `npx -c`, has this word in it. */
function inScript(names: readonly string[], at: number): boolean {
  const word = names[at] ?? ''
  return pathOf(names).scripts.some((text) => text.includes(word))
}

/** The words are the same objects in what is found, so that their places are known. */
function unwrapped(names: readonly string[], from: number) {
  const args = names.slice(from + 1).map((word) => literalArg(word))
  const known = /^(?:sudo|doas)$/.test(baseName(names[from] ?? ''))
    ? args.filter(({ value }) => !/^-[AbBEeHknPSivs]+$/.test(value))
    : args
  const found = unwrapWrapper(baseName(names[from] ?? ''), known)
  return found && { args, found }
}

/** Where the program is that runs in the end: `env A=b nice npm` is npm. */
const programAt = (names: readonly string[]): number => pathOf(names).program

/** Each word of a command asks for it. */
const paths = new WeakMap<readonly string[], { program: number; scripts: string[] }>()

/** From wrapper to wrapper to the program, with the scripts that they run. */
function pathOf(names: readonly string[]): { program: number; scripts: string[] } {
  const known = paths.get(names)
  if (known) return known
  const path = { program: 0, scripts: [] as string[] }
  paths.set(names, path)
  for (let at: number | null = 0; at !== null; at = nextProgram(names, at)) {
    path.program = at
    for (const one of unwrapped(names, at)?.found.nested ?? [])
      if (one.kind === 'script') path.scripts.push(one.text)
  }
  return path
}

/** By the policy's tables, which know the options that take a value; those that they do not have by what words look like. */
function nextProgram(names: readonly string[], from: number): number | null {
  const name = baseName(names[from] ?? '')
  if (evaluate.has(name) || isShellWord(name)) return null
  const known = unwrapped(names, from)
  const command = known?.found.nested.find(({ kind }) => kind === 'command')
  if (known && command?.kind === 'command' && command.words[0] !== undefined) {
    // An option that is not known may take the next word.
    if (known.found.findings.some(({ why }) => why.startsWith('An option that is not known')))
      return names.length
    return from + 1 + known.args.indexOf(command.words[0])
  }
  if (!passOn.has(name)) return null
  let at = from + 1
  while (/^-|=|^[0-9.]+[smhd]?$/.test(names[at] ?? '')) at += 1
  return at
}

/** Also by a version: `bash5`, `zsh-5.9`. Names that are everyday words are shells only as the program itself. */
function isShellWord(word: string): boolean {
  const name = baseName(word).replace(/[-.]?\d[\d.]*$/, '')
  return (
    isShell(name) ||
    /^(?:busy|toy)box$/.test(name) ||
    (isForeignShell(name) && !/^(?:cmd|nu)$/.test(name))
  )
}

const hasShell = (names: readonly string[]): boolean => names.some(isShellWord)

/** Up to the first word after the options of a shell: code after -c, or the file that is run. The rest are its arguments. */
const isShellOperand = (names: readonly string[], at: number): boolean =>
  names.some((word, shell) => isShellWord(word) && at <= operandOf(names, shell))

function operandOf(names: readonly string[], shell: number): number {
  let operand = shell + 1
  while (/^[-+]/.test(names[operand] ?? ''))
    operand += /^[-+][oO]$/.test(names[operand] ?? '') ? 2 : 1
  return operand
}

/** Does the program take its standard input as code? */
export function commandReadsCode(names: readonly string[]): boolean {
  const at = programAt(names)
  const program = baseName(names[at] ?? '')
  if (evaluate.has(program) || hasShell(names) || isForeignShell(program)) return true
  return operandsReadCode([program, ...names.slice(at + 1)])
}

/** How many commands of a pipeline come before the last one that runs what comes to it. */
export const beforeRunner = (commands: readonly SyntaxNode[]): number =>
  Math.max(
    0,
    commands.findLastIndex((command) => commandRunsInput(command)),
  )

/** Whether something in it runs what it reads: a shell that has neither code nor a file, or one that gets words as code. */
export function commandRunsInput(node: SyntaxNode): boolean {
  if (node.type === 'Word') return false
  if (node.type === 'Command') {
    const words = node.suffix.filter((part) => part.type === 'Word')
    return (
      runsItsInput([node.name?.value ?? '', ...words.map(({ value }) => value)]) ||
      commandFeedsRunner([...node.prefix, ...node.suffix])
    )
  }
  let found = false
  forEachChild(node, (child) => {
    found ||= commandRunsInput(child)
  })
  return found
}

/** Whether what it prints, or is given, goes into something that runs it: `tee >(sh)`, `echo a > >(sh)`. */
export const commandFeedsRunner = (parts: readonly (CommandArgument | Redirection)[]): boolean =>
  parts.some((part) => {
    const word = part.type === 'Word' ? part : 'target' in part ? part.target : undefined
    return (word?.parts ?? []).some(
      (one) =>
        one.type === 'ProcessSubstitution' &&
        one.operator === '>' &&
        one.script !== undefined &&
        commandRunsInput(one.script),
    )
  })

function runsItsInput(names: readonly string[]): boolean {
  const at = programAt(names)
  const program = baseName(names[at] ?? '')
  if (runners.has(program) || isForeignShell(program)) return true
  if (names.slice(0, at).some((word) => baseName(word) === 'xargs') && isFedCode(names.slice(at)))
    return true
  if (operandsReadCode([program, ...names.slice(at + 1)])) return true
  return names.some((word, shell) => {
    if (!isShellWord(word)) return false
    const operand = operandOf(names, shell)
    const options = names.slice(shell + 1, operand)
    return names[operand] === undefined || options.some((option) => /^-[a-zA-Z]*s/.test(option))
  })
}

/** `xargs -I% sh -c %`, `xargs -I% %`: what is read becomes code, or the name of a program. */
const isFedCode = (names: readonly string[]): boolean =>
  hasShell(names) ||
  /[{}%]/.test(names[0] ?? '{}') ||
  names.some(
    (word, at) =>
      at > 0 &&
      isCodeOperand([baseName(names[0] ?? ''), ...names.slice(1)], at) &&
      /[{}%]/.test(word),
  )
