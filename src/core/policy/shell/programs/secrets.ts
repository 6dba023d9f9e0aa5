import type { Arg } from '../words/arg.ts'
import { isSecretVariable } from '../words/assignments.ts'
import { ambiguous, type Finding } from '../words/finding.ts'
import { hasFlag, optionSet, parseOptions } from '../words/options.ts'

/** Without names, these print every variable. */
const listers = new Set(['export', 'declare', 'typeset', 'set', 'readonly'])

/** Why the command shows the environment or a credential; null if it does not. */
export function secretWhy(program: string, args: readonly Arg[]): string | null {
  if (program === 'printenv' && printsSecret(args)) return 'It prints environment variables'
  if (program === 'env' && printsAll(args)) return 'It prints environment variables'
  if (listers.has(program) && listsAll(program, args)) return 'It prints environment variables'
  const printed = printedArgs(program, args)
    .flatMap(({ variables }) => variables)
    .find(isSecretVariable)
  if (printed) return `It prints "${printed}"`
  if (/^(?:echo|printf|print)$/.test(program)) {
    if (args.some(({ text }) => /\$\{![A-Za-z_]\w*\}/.test(text)))
      return 'It prints a variable that another one names'
  }
  const named = /^(?:jq|gojq|jaq|envsubst)$/.test(program)
    ? args.flatMap(({ value }) => environmentNames(value)).find(isSecretVariable)
    : undefined
  if (named) return `It prints "${named}"`
  if (
    /^(?:jq|gojq|jaq)$/.test(program) &&
    args.some(({ value }, at) => jqEnvironment.test(value) && !isNamed(args, at))
  )
    return 'It prints environment variables'
  if (program === 'ps' && args.some(({ value }) => /^[a-z]*e[a-z]*$/.test(value)))
    return 'It prints the environment of processes'
  if (/^(?:npm|yarn|pnpm|bun)$/.test(program) && isRunOfEnv(args))
    return 'It prints environment variables'
  if (
    /^g?make$/.test(program) &&
    args.some(({ value }) => /^-[a-zA-Z]*p|^--pr?i?n?t?-?d?a?t?a?/.test(value))
  )
    return 'It prints every variable'
  if (
    /^mvnw?$/.test(program) &&
    args.some(({ value }) => /^help:(?:system|effective-settings)$|:maven-help-plugin:/.test(value))
  )
    return 'It prints environment variables'
  if (program === 'rails' && args.some(({ value }) => railsSecrets.test(value)))
    return 'It prints credentials of the project'
  const codeOf = Object.hasOwn(environmentCode, program) ? environmentCode[program] : undefined
  if (codeOf && args.some(({ value }) => codeOf.test(value)))
    return 'It prints environment variables'
  return tokenPrinters.some((words) => startsWith(program, args, words))
    ? 'It prints a credential'
    : null
}

/** They print their words, or what is wrong with them. */
const printers =
  /^(?:echo|printf|print|basename|dirname|expr|date|seq|yes|sleep|tr|kill|exit|return|wait|shift|let|hash|type|which|whereis|man|jobs|fg|bg|umask|ulimit|read|unset|figlet|cowsay|banner|logger|wall|tput|cal|numfmt|factor|jq|gojq|jaq|yq|[gmn]?awk|g?sort)$/
const gitPrinters =
  /^(?:commit|tag|log|show|stash|notes|merge|describe|for-each-ref|rev-parse|format-patch)$/

/** The arguments whose text is shown. */
function printedArgs(program: string, args: readonly Arg[]): readonly Arg[] {
  if (printers.test(program)) return args
  if (program === 'git') {
    const at = args.findIndex(({ value }) => gitPrinters.test(value))
    return at < 0 ? [] : args.slice(at)
  }
  if (/^(?:test|\[)$/.test(program))
    return args.some(({ value }) => /^-(?:eq|ne|lt|le|gt|ge)$/.test(value)) ? args : []
  if (program !== 'curl') return []
  // What it sends is shown then.
  if (args.some(({ value }) => /^-[a-zA-Z]*v|^--(?:verb|trace)/.test(value))) return args
  return args.filter(
    ({ value }, at) =>
      /^(?:-[a-zA-Z]*w|--write-out)$/.test(args[at - 1]?.value ?? '') ||
      /^(?:-[a-zA-Z]*w.|--write-out=)/s.test(value),
  )
}

/** Shells and programs that show a variable by its name, also behind another program. */
const showsVariables =
  /^(?:.*\/)?(?:(?:ba|da|z|k|a|mk|ya|rba|fi)?sh|env|printenv|envsubst|jq|gojq|jaq|yq|[gmn]?awk|eval|source|\.|export|declare|typeset|set)$/

/** `X=$API_KEY sh -c 'echo $X'`: then the name says no more that it is one. */
export function secretHandedOn(name: string, value: Arg, words: readonly string[]): Finding[] {
  const secret = value.variables.find(isSecretVariable)
  if (!secret || isSecretVariable(name)) return []
  const shows = (word: string) =>
    showsVariables.test(word) || word.includes(`$${name}`) || word.includes(`\${${name}`)
  return words.some(shows) ? [ambiguous(`"${name}" is set to "${secret}"`)] : []
}

/** `env.X`, `$ENV.X`, `$ENV["X"]` of jq, `$X` and `${X}` of envsubst. */
const environmentNames = (text: string): string[] =>
  [
    ...text.matchAll(/(?:\benv|\$ENV)\s{0,4}(?:\.|\.?\[)\s{0,4}"?(\w{1,100})/g),
    ...text.matchAll(/\$\{?(\w{1,100})/g),
  ].flatMap(([, name]) => name ?? [])

const getsAll =
  /Sys\.getenv\(\s{0,4}\)|System\.get_env(?!\(\s{0,4}["'])|os:getenv\(\s{0,4}\)|(?:^|[^\w"'])ENV(?!\s{0,4}\[|\w)/
/** Words by which these show it whole. */
const environmentCode: Record<string, RegExp> = {
  php: /^(?:-i|--info)$/,
  tmux: /^show-?env/,
  cmake: /^environment$/,
  r: getsAll,
  rscript: getsAll,
  julia: getsAll,
  elixir: getsAll,
  erl: getsAll,
}

/** `npm run env` is npm's own. */
const isRunOfEnv = (args: readonly Arg[]): boolean => {
  const [first, second] = args.map(({ value }) => value).filter((value) => !value.startsWith('-'))
  return /^(?:run|run-script|rum|urn)$/.test(first ?? '') && second === 'env'
}

/** Not a field of that name, and not one variable of it. */
const jqEnvironment = /(?:^|[^\w.$"'-])env\b(?![."':])|\$ENV\b(?!\.)/

/** `--arg env prod` */
const isNamed = (args: readonly Arg[], at: number): boolean =>
  /^--(?:arg|argjson|slurpfile|rawfile)$/.test(args[at - 1]?.value ?? '')

const railsSecrets = /^(?:credentials|secrets|encrypted):(?:show|edit|diff)$/

const startsWith = (program: string, args: readonly Arg[], [name, ...rest]: readonly string[]) =>
  program === name && rest.every((word, index) => args[index]?.value === word)

const tokenPrinters = [
  ['gh', 'auth', 'token'],
  ['gcloud', 'auth', 'print-access-token'],
  ['gcloud', 'auth', 'print-identity-token'],
  ['aws', 'configure', 'export-credentials'],
  ['aws', 'configure', 'get'],
  ['npm', 'token'],
  ['dotnet', 'user-secrets', 'list'],
  ['security', 'find-generic-password'],
  ['gpg', '--export-secret-keys'],
  ['pass', 'show'],
  ['op', 'read'],
  ['vault', 'read'],
]

const printsSecret = (args: readonly Arg[]): boolean => {
  const { operands } = parseOptions(args)
  return operands.length === 0 || operands.some(({ value }) => isSecretVariable(value))
}

const envValues = optionSet('u unset C chdir S split-string')

function printsAll(args: readonly Arg[]): boolean {
  const parsed = parseOptions(args, envValues, true)
  if (hasFlag(parsed, 'S', '--split-string', '--help', '--version')) return false
  return parsed.operands.every(({ value }) => /^\w+=/.test(value))
}

const listsAll = (program: string, args: readonly Arg[]): boolean =>
  args.length === 0 ||
  (program !== 'set' &&
    args.every(({ value }) => /^-[a-zA-Z]*$/.test(value) && /[px]/.test(value))) ||
  (args.some(({ value }) => /^-[a-zA-Z]*p/.test(value)) &&
    args.some(({ value }) => isSecretVariable(value)))
