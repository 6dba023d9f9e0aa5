import type { Arg } from '../words/arg.ts'
import { isSecretVariable } from '../words/assignments.ts'
import { hasFlag, optionSet, parseOptions } from '../words/options.ts'

/** Without names, these print every variable. */
const listers = new Set(['export', 'declare', 'typeset', 'set', 'readonly'])

/** Why the command shows the environment or a credential; null if it does not. */
export function secretWhy(program: string, args: readonly Arg[]): string | null {
  if (program === 'printenv' && printsSecret(args)) return 'It prints environment variables'
  if (program === 'env' && printsAll(args)) return 'It prints environment variables'
  if (listers.has(program) && listsAll(program, args)) return 'It prints environment variables'
  if (/^(?:echo|printf|print)$/.test(program)) {
    const name = args
      .flatMap(({ variables }) => variables)
      .find((variable) => isSecretVariable(variable))
    if (name) return `It prints "${name}"`
    if (args.some(({ text }) => /\$\{![A-Za-z_]\w*\}/.test(text)))
      return 'It prints a variable that another one names'
  }
  const named = /^(?:jq|gojq|jaq|envsubst)$/.test(program)
    ? args.flatMap(({ value }) => environmentNames(value)).find(isSecretVariable)
    : undefined
  if (named) return `It prints "${named}"`
  if (
    program === 'jq' &&
    args.some(({ value }, at) => jqEnvironment.test(value) && !isNamed(args, at))
  )
    return 'It prints environment variables'
  if (program === 'ps' && args.some(({ value }) => /^[a-z]*e[a-z]*$/.test(value)))
    return 'It prints the environment of processes'
  if (/^(?:npm|yarn)$/.test(program) && isRunOfEnv(args)) return 'It prints environment variables'
  if (
    /^g?make$/.test(program) &&
    args.some(({ value }) => /^-[a-zA-Z]*p|^--pr?i?n?t?-?d?a?t?a?/.test(value))
  )
    return 'It prints every variable'
  if (
    /^mvnw?$/.test(program) &&
    args.some(({ value }) => /^help:system$|:maven-help-plugin:/.test(value))
  )
    return 'It prints environment variables'
  if (program === 'rails' && args.some(({ value }) => railsSecrets.test(value)))
    return 'It prints credentials of the project'
  return tokenPrinters.some((words) => startsWith(program, args, words))
    ? 'It prints a credential'
    : null
}

/** `env.X`, `$ENV.X`, `$ENV["X"]` of jq, `$X` and `${X}` of envsubst. */
const environmentNames = (text: string): string[] =>
  [
    ...text.matchAll(/(?:\benv|\$ENV)\s{0,4}(?:\.|\.?\[)\s{0,4}"?(\w{1,100})/g),
    ...text.matchAll(/\$\{?(\w{1,100})/g),
  ].flatMap(([, name]) => name ?? [])

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
