import { type CommandArgument, forEachChild, type Redirection, type SyntaxNode } from 'unbash'

/**
 * Which words of a command are data, and which are read as code once more: by the shell itself, or by a program whose
 * argument or input is a script. Where it is not sure it says code. `script-slots.ts` asks it for each place of a value.
 */

const shells = new Set(['sh', 'bash', 'dash', 'zsh', 'ksh', 'ash', 'busybox', 'fish'])
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
const assign = new Set(['export', 'readonly', 'local'])
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

/** A shell runs what is in them, or takes its programs from there. */
export const isCodeVariable = (name: string): boolean =>
  /^(BASH_ENV|ENV|PS[0-4]|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|PATH|IFS|LD_.*|BASH_FUNC_.*)$/.test(
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
  const program = programAt(names)
  if (at <= program) return false
  const name = baseName(names[program] ?? '')
  if (evaluate.has(name)) return false
  // Whichever program that is, it may be a shell.
  if (/[$`]/.test(names[program] ?? '') && names.some((word) => /^-[a-zA-Z]*c$/.test(word)))
    return false
  // What stands between a wrapper and its program is not known of every wrapper.
  if (program > 0 && names.slice(1, at).some((word) => evaluate.has(baseName(word)))) return false
  if (name === 'flock' && names.includes('-c')) return false
  // `-v NAME[INDEX]` evaluates the index, and a value may be the `-v`.
  if (name === 'printf' && (names.includes('-v') || at === program + 1))
    return !names.includes('-v') && !isValue(names[at] ?? '')
  if ((name === 'test' || name === '[') && (names.includes('-v') || isValue(names[at - 1] ?? '')))
    return false
  if (name === 'find' && names.some(isFindRun))
    return !hasShell(names) && !isFindRun(names[at - 1] ?? '')
  return !isCodeOperand(names, at)
}

const isFindRun = (word: string): boolean => /^-(exec|ok)(dir)?$/.test(word)

/** Where the program is that runs in the end: `env A=b nice npm` is npm. */
function programAt(names: readonly string[]): number {
  let at = 0
  while (passOn.has(baseName(names[at] ?? ''))) {
    at += 1
    while (/^-|=|^[0-9.]+[smhd]?$/.test(names[at] ?? '')) at += 1
  }
  return at
}

const isShell = (word: string): boolean => shells.has(baseName(word))

const hasShell = (names: readonly string[]): boolean => names.some(isShell)

/** Up to the first word after the options of a shell: code after -c, or the file that is run. The rest are its arguments. */
const isCodeOperand = (names: readonly string[], at: number): boolean =>
  names.some((word, shell) => isShell(word) && at <= operandOf(names, shell))

function operandOf(names: readonly string[], shell: number): number {
  let operand = shell + 1
  while (/^[-+]/.test(names[operand] ?? ''))
    operand += /^[-+][oO]$/.test(names[operand] ?? '') ? 2 : 1
  return operand
}

/** Does the program take its standard input as code? */
export function commandReadsCode(names: readonly string[]): boolean {
  const program = baseName(names[programAt(names)] ?? '')
  return evaluate.has(program) || hasShell(names)
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
  if (runners.has(baseName(names[programAt(names)] ?? ''))) return true
  if (baseName(names[0] ?? '') === 'xargs' && hasShell(names)) return true
  return names.some((word, shell) => {
    if (!isShell(word)) return false
    const operand = operandOf(names, shell)
    const options = names.slice(shell + 1, operand)
    return names[operand] === undefined || options.some((option) => /^-[a-zA-Z]*s/.test(option))
  })
}
