import { isCodeOption, isRunner } from '../../policy/shell/programs/shells.ts'
import { runningFindings } from '../../policy/shell/programs/running-options.ts'
import { literalArg } from '../../policy/shell/words/arg.ts'

/**
 * Programs of which some words are code or the name of a program: interpreters, git, make, tar and their like. The names
 * are those of one command without what stands before its program; `at` is a place behind the program.
 */
export function isCodeOperand(names: readonly string[], at: number): boolean {
  const program = names[0] ?? ''
  const [word, before] = [names[at] ?? '', at > 1 ? (names[at - 1] ?? '') : '']
  if (isCodeOption(program, before) || isGluedCode(program, word)) return true
  if (isRunning(program, before) || isRunning(program, word)) return true
  if (program === 'git') return isGitCode(names.slice(1), at - 1)
  if (/^g?make$/.test(program)) return /^[^-=\s]+=/.test(word)
  if (/^(?:scp|sftp)$/.test(program)) return /^-[a-zA-Z]*[oS]/.test(word) || /^-[oS]$/.test(before)
  if (program === 'rsync')
    return (
      /^(?:-[a-zA-Z]*e|--rsh|--rsync-path)/.test(word) || /^(?:-[a-zA-Z]*e|--rsh)$/.test(before)
    )
  if (/^(?:[gmn]?awk|g?sed)$/.test(program)) return isFirstProgram(program, names, at)
  return isInterpreter(program) && at <= operandAt(names)
}

/** Whether it takes what it reads as code, in whichever language. */
export function operandsReadCode(names: readonly string[]): boolean {
  const program = names[0] ?? ''
  if (/^(?:psql|mysql|mariadb|sqlite3)$/.test(program)) return true
  if (!isInterpreter(program)) return false
  const operand = names[operandAt(names)]
  const isGiven = names.some((_, at) => at > 0 && isCodeOption(program, names[at - 1] ?? ''))
  return !isGiven && (operand === undefined || operand === '-')
}

/** Shells aside: `commands.ts` knows them. */
const isInterpreter = (program: string): boolean =>
  /^(?:python|pypy|node|bun|tsx|ts-node|perl|ruby|php|lua|osascript|deno)/.test(program) &&
  isRunner(program)

/** The first word that is no option is the file that it runs, `-m` names a module of it. */
function operandAt(names: readonly string[]): number {
  const at = names.findIndex((word, index) => index > 0 && !/^-./.test(word))
  return at < 0 ? names.length : at
}

/** `-e'…'`, `--eval=…` */
function isGluedCode(program: string, word: string): boolean {
  const option = /^(--[a-z]+)=/.exec(word)?.[1] ?? /^(-[a-zA-Z]*[ceErRB])[^a-zA-Z]/.exec(word)?.[1]
  const letter = /^(-[ceE])./.exec(word)?.[1]
  return [option, letter].some((one) => one !== undefined && isCodeOption(program, one))
}

/** They name files, and nothing that runs. */
const readers = /^(?:curl|zip|7za?|jq|gojq|jaq|yq|g?find|shopt|rsync)$/

const isRunning = (program: string, word: string): boolean =>
  word !== '' && !readers.test(program) && runningFindings(program, [literalArg(word)]).length > 0

/** The program of awk or sed is its first operand, unless an option has it. */
function isFirstProgram(program: string, names: readonly string[], at: number): boolean {
  const values = program.endsWith('sed') ? /^-[ls]$/ : /^-[vFfE]$/
  const code = /^(?:-[a-zA-Z]*e|--expression|--source)/
  const isGiven = names.some(
    (word, index) => index < at && /^(?:-[a-zA-Z]*[ef]$|--file|--exp)/.test(word),
  )
  if (code.test(names[at] ?? '')) return true
  if (isGiven) return false
  return (
    !names.some(
      (word, index) =>
        index > 0 &&
        index < at &&
        !/^-./.test(word) &&
        word !== '' &&
        !values.test(names[index - 1] ?? ''),
    ) && !values.test(names[at - 1] ?? '')
  )
}

/** Options of git before its subcommand that take the next word. */
const gitValues = /^(?:-C|--git-dir|--work-tree|--namespace|--super-prefix|--list-cmds)$/

/** By subcommand: options whose value is run. */
const gitRunning: Record<string, RegExp> = {
  rebase: /^(?:-x|--exec)/,
  difftool: /^(?:-x|--extcmd)/,
  mergetool: /^(?:-x|--extcmd)/,
  clone: /^(?:-u|--upload-pack|-c|--config|--template)/,
  init: /^--template/,
  fetch: /^--upload-pack/,
  pull: /^--upload-pack/,
  'ls-remote': /^(?:--upload-pack|--exec)/,
  push: /^(?:--receive-pack|--exec)/,
  archive: /^--exec/,
  grep: /^(?:-O|--open-files-in-pager)/,
  'send-email': /^--(?:smtp-server|sendmail-cmd|to-cmd|cc-cmd|header-cmd)/,
}

function isGitCode(args: readonly string[], at: number): boolean {
  let sub = 0
  while (args[sub]?.startsWith('-')) {
    const option = args[sub] ?? ''
    if (/^(?:-c|--config-env)$/.test(option) && at === sub + 1) return true
    if (/^(?:-c.|--config-env=|--exec-path=)/.test(option) && at === sub) return true
    sub += /^(?:-c|--config-env)$/.test(option) || gitValues.test(option) ? 2 : 1
  }
  if (at <= sub) return at === sub
  const [name = '', ...rest] = args.slice(sub)
  return isGitOperandCode(name, rest, at - sub - 1)
}

function isGitOperandCode(name: string, rest: readonly string[], at: number): boolean {
  if (name === 'filter-branch' || name === 'filter-repo') return true
  if (name === 'submodule') return rest.slice(0, at).includes('foreach')
  if (name === 'bisect')
    return rest[0] === 'run' && (at === 1 || isCodeInside(rest.slice(1), at - 1))
  if (name === 'config') return isGitConfigCode(rest, at)
  const running = Object.hasOwn(gitRunning, name) ? gitRunning[name] : undefined
  return running !== undefined && [rest[at], rest[at - 1]].some((word) => running.test(word ?? ''))
}

const isCodeInside = (names: readonly string[], at: number): boolean =>
  isRunner(names[0] ?? '') || isCodeOperand(names, at)

const gitPrograms =
  /^(?:alias|filter|diff|merge|difftool|mergetool|browser|man|pager|credential|gpg|sendemail|include|includeif|uploadpack|uploadarchive|sequence|interactive|trailer|tar|receive|web|instaweb|guitool|submodule|core\.(?:pager|editor|sshcommand|hookspath|fsmonitor|askpass|gitproxy|attributesfile|alternaterefscommand)|init\.templatedir|remote\..*\.(?:uploadpack|receivepack|vcs|proxy)|url|protocol|ssh)(?:\.|$)/i

/** Keys of git's settings that name a program; a key that is a value may be one. */
function isGitConfigCode(rest: readonly string[], at: number): boolean {
  const key = rest.findIndex((word) => !/^(?:-|(?:get|set|unset|list)$)/.test(word))
  return at === key || gitPrograms.test(rest[key] ?? '')
}
