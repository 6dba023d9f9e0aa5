import { type Arg, isKnown, literalArg, substituted } from '../words/arg.ts'
import { codeFindings, type CodeReport } from '../code/code.ts'
import { type ClientWords, clientWords, isClientStatement } from './clients.ts'
import { optionSet, parseOptions, valuesOf } from '../words/options.ts'
import { ambiguous, type Finding, type Nested, type Stdin } from '../words/finding.ts'

const shells = new Set(['sh', 'bash', 'dash', 'zsh', 'ksh', 'ash', 'mksh', 'yash', 'rbash'])
/** Their language is not the one that is parsed here. */
const foreignShells = new Set(['fish', 'csh', 'tcsh', 'pwsh', 'powershell', 'cmd', 'nu', 'elvish'])

export const isShell = (program: string): boolean => shells.has(program)
export const isForeignShell = (program: string): boolean => foreignShells.has(program)

export interface Run {
  nested: Nested[]
  findings: Finding[]
  code: CodeReport[]
}
const nothing = (): Run => ({ nested: [], findings: [], code: [] })
const unclear = (why: string): Run => ({ ...nothing(), findings: [ambiguous(why)] })

/** Whether its arguments are programs to it. */
export const isRunner = (program: string): boolean =>
  shells.has(program) ||
  foreignShells.has(program) ||
  ['eval', 'source', '.'].includes(program) ||
  interpreters.some(({ names, data }) => names.test(program) && data?.source !== '.')

/** What a shell, `eval` or an interpreter is told to run; null for every other command. */
export function runOfShell(program: string, args: readonly Arg[], stdin: Stdin): Run | null {
  if (shells.has(program)) return asShell(program, shellRun(args, stdin))
  if (foreignShells.has(program)) return unclear(`"${program}" speaks another language`)
  if (program === 'eval') return scriptRun(args.length > 0 ? textArg(args) : null, 'eval')
  if (program === 'trap') return args.length > 1 ? scriptRun(args[0] ?? null, 'trap') : nothing()
  if (program === 'alias') return aliasRun(args)
  if (program === 'source' || program === '.') return fileRun(args[0], stdin)
  return interpreterRun(program, args, stdin)
}

/**
 * Scripts are read as bash reads them. To a plain shell some of it means something else: quotes inside of `${…}`, lists in
 * braces, `[[`, arrays, and what `echo` makes of a backslash.
 */
const differs =
  /\$\{[^}]{0,30}['"\\]|\{[^}\s]{0,30}[,.]|\[\[|\$'|\$"|<\(|>\(|<<<|&>|\|&|\(\(|\bfunction\s|\bsource\s|\bdeclare\s|\blocal\s|\w=\(|\w\[[^\]]{0,60}\]=|\$\{\w+(?:\/|:\d|\^|,|\[)|\bselect\s|\bcoproc\b|!\(|\+=|\\/

function asShell(program: string, run: Run): Run {
  if (/^(?:bash|rbash)$/.test(program)) return run
  const foreign = !/^(?:sh|dash|ash)$/.test(program)
  const differ = run.nested.some((part) => part.kind === 'script' && differs.test(part.text))
  return differ || (foreign && run.nested.length > 0)
    ? {
        ...run,
        findings: [...run.findings, ambiguous(`"${program}" may read the script in another way`)],
      }
    : run
}

const textArg = (args: readonly Arg[]): Arg | null =>
  args.every(isKnown) ? { ...literalArg(args.map(({ value }) => value).join(' ')), text: '' } : null

/** `bash -xc x` is `bash -c 'set -x; x'`. */
const traced = (script: Arg): Arg => ({ ...script, value: `set -x\n${script.value}` })

const scriptRun = (script: Arg | null | undefined, what: string): Run =>
  script && isKnown(script)
    ? { ...nothing(), nested: [{ kind: 'script', text: script.value }] }
    : unclear(`What "${what}" runs is put together when it runs`)

function aliasRun(args: readonly Arg[]): Run {
  const values = args.filter(({ value }) => value.includes('='))
  if (!values.every(isKnown)) return unclear('An alias is put together when it runs')
  return {
    ...nothing(),
    nested: values.map(({ value }) => ({
      kind: 'script',
      text: value.slice(value.indexOf('=') + 1),
    })),
  }
}

/** A descriptor that is not standard input, or of another process. */
const otherStream = /^\/dev\/fd\/(?!0$)|^\/proc\/(?:[^/]{1,20})\/fd\/(?!0$)/
const stdinFile = /^(?:-|\/dev\/stdin|\/dev\/fd\/.*|\/proc\/self\/fd\/.*)$/

function fileRun(file: Arg | undefined, stdin: Stdin): Run {
  if (!file || !isKnown(file)) return unclear('The script is known only when it runs')
  if (file.value === substituted) return unclear('A shell runs what another command prints')
  if (!stdinFile.test(file.value)) return nothing()
  return stdin.kind === 'text' ? stdinRun(stdin) : unclear('A shell runs what it is given')
}

function shellRun(args: readonly Arg[], stdin: Stdin): Run {
  let takesScript = false
  let fromStdin = false
  let traces = false
  let index = 0
  for (; index < args.length; index += 1) {
    const { value } = args[index] as Arg
    if (value === '--' || value === '-') {
      index += 1
      break
    }
    if (!/^[-+]./.test(value)) break
    if (/^--(?:rcfile|init-file)(?:=|$)/.test(value)) return unclear('The shell reads a file first')
    if (/^--(?:login|norc|noprofile|help|version)$/.test(value)) continue
    if (value.startsWith('--')) return unclear('An option of the shell is not known')
    if (!/^[-+][abcefhilmnprstuvxoOBCEHP]+$/.test(value))
      return unclear('An option of the shell is not known')
    takesScript ||= value.startsWith('-') && value.includes('c')
    fromStdin ||= value.includes('s')
    traces ||= /^-.*x/.test(value) || args[index + 1]?.value === 'xtrace'
    if (/[oO]/.test(value)) index += 1
    if (/^(?:expand_aliases|dotglob|extglob|nocaseglob)$/.test(args[index]?.value ?? ''))
      return unclear('Names may mean something else')
  }
  const operand = args[index]
  if (takesScript) return scriptRun(operand && traces ? traced(operand) : operand, 'sh -c')
  return operand && !fromStdin ? fileRun(operand, stdin) : stdinRun(stdin)
}

function stdinRun(stdin: Stdin): Run {
  if (stdin.kind === 'text') return { ...nothing(), nested: [{ kind: 'script', text: stdin.text }] }
  return stdin.kind === 'none' ? nothing() : unclear('A shell runs what another command prints')
}

/** The option after which code follows, and those that mean that standard input is data. */
const interpreters: { names: RegExp; code: RegExp; data?: RegExp }[] = [
  { names: /^(?:python|pypy)[\d.]*$/, code: /^-[a-zA-Z]*c$/, data: /^-[a-zA-Z]*m/ },
  { names: /^(?:node|nodejs|bun|tsx|ts-node)$/, code: /^(?:-e|-p|-pe|--eval|--print)$/ },
  { names: /^perl[\d.]*$/, code: /^-[0aclnpsw]{0,8}i?[0aclnpsw]{0,8}[eE]$/ },
  { names: /^ruby[\d.]*$/, code: /^-[aclnpsw]*e$/ },
  { names: /^php[\d.]*$/, code: /^-[rBRE]$/ },
  { names: /^lua[\d.]*$/, code: /^-e$/ },
  { names: /^osascript$/, code: /^-e$/ },
  { names: /^deno$/, code: /^eval$/, data: /^(?!-)/ },
  { names: /^(?:awk|gawk|mawk|nawk)$/, code: /^(?:-e|--source)$/, data: /./ },
  { names: /^g?sed$/, code: /^(?:-e|--expression)$/, data: /./ },
]

/** Whether what follows the option is read as code. */
export const isCodeOption = (program: string, option: string): boolean =>
  isClientStatement(program, option) ||
  interpreters.some(({ names, code }) => names.test(program) && code.test(option))

function interpreterRun(program: string, args: readonly Arg[], stdin: Stdin): Run | null {
  const client = clientWords(program, args)
  if (client) return clientRun(program, client, stdin)
  const known = interpreters.find(({ names }) => names.test(program))
  if (!known) return null
  const texts = codeTexts(program, args, known)
  if (
    args.some(
      ({ value }, index) => isStream(value) && fileOption.test(args[index - 1]?.value ?? ''),
    )
  )
    return unclear(`"${program}" runs what another command prints`)
  const script = args.find(({ value }) => !/^-./.test(value))?.value ?? ''
  const isData = known.data?.source === '.'
  if (!isData && texts.length === 0 && otherStream.test(script))
    return unclear(`"${program}" runs what another command prints`)
  const readsStdin =
    texts.length === 0 &&
    ((!isData && stdinFile.test(script)) ||
      !args.some(({ value }) => (!value.startsWith('-') || known.data?.test(value)) ?? false))
  if (!readsStdin) return { ...nothing(), code: texts.map((text) => codeFindings(program, text)) }
  if (stdin.kind === 'text') return { ...nothing(), code: [codeFindings(program, stdin.text)] }
  return stdin.kind === 'none'
    ? nothing()
    : unclear(`"${program}" runs what another command prints`)
}

const fileOption = /^(?:-[a-zA-Z]*f|--file)$/
const isStream = (value: string): boolean => value === substituted || stdinFile.test(value)

/** Without a statement among their words they take them from standard input. */
function clientRun(program: string, client: ClientWords, stdin: Stdin): Run {
  const { statements, files, nested, findings } = client
  const run = { nested: [...nested], findings: [...findings], code: [] as CodeReport[] }
  const unseen = ambiguous(`"${program}" runs what another command prints`)
  run.code.push(...statements.map(({ value }) => codeFindings(program, value)))
  const takesStdin = statements.length + files.length === 0
  if (takesStdin && stdin.kind === 'text') run.code.push(codeFindings(program, stdin.text))
  if (files.some(({ value }) => isStream(value)) || (takesStdin && stdin.kind === 'unknown'))
    run.findings.push(unseen)
  return run
}

/** `-c'…'`, `-e'…'` */
const gluedCode = /^(?:--(?:eval|print|expression|source)=|-[cer].)/s
const gluedOption = /^(?:--[a-z]+=|-[cer])/

const sedOptions = optionSet('e f l expression file line-length')
const awkOptions = optionSet('e f F v E i l source file field-separator assign include load')

/** Of sed and awk: what their options say, else the first operand. */
function scriptTexts(program: string, args: readonly Arg[]): Arg[] {
  const parsed = parseOptions(args, program.endsWith('sed') ? sedOptions : awkOptions)
  const given = valuesOf(parsed, 'e', 'expression', 'source')
  const isFile = valuesOf(parsed, 'f', 'file').length > 0
  if (given.length > 0 || isFile) return given
  // To some systems an empty word belongs to -i.
  return parsed.operands.slice(0, parsed.operands[0]?.value === '' ? 2 : 1)
}

function codeTexts(program: string, args: readonly Arg[], { code }: { code: RegExp }): string[] {
  if (/awk$|sed$/.test(program)) return scriptTexts(program, args).map(({ value }) => value)
  const after = args.filter((_, index) => code.test(args[index - 1]?.value ?? ''))
  const glued = args.filter(({ value }) => gluedCode.test(value) && !code.test(value))
  const texts = after.map(({ value }) => value)
  return [...texts, ...glued.map(({ value }) => value.replace(gluedOption, ''))]
}
