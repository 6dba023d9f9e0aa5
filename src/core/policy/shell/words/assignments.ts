import { isSecretPath } from '../../matching/paths.ts'
import { type Arg, hole, isKnown, literalArg, type Surroundings } from './arg.ts'
import { environmentWhy } from './environment.ts'
import { ambiguous, type Finding } from './finding.ts'
import { isProgramPath, locate } from './locate.ts'

const secretVariable =
  /(?:^|_)(?:TOKEN|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|APIKEY|API_KEY|PRIVATE_KEY|ACCESS_KEY|CREDENTIALS?)(?:_|$)|(?:^|_)DATABASE_URL$/i
/** What is made to be seen, and keys that lock nothing. */
const publicKey =
  /(?:^|_)(?:PUBLIC|PUB|PUBLISHABLE|ANON|PRIMARY|FOREIGN|SORT|PARTITION|CACHE)_KEY$|^(?:NEXT_PUBLIC|EXPO_PUBLIC|NUXT_PUBLIC|REACT_APP|GATSBY|VITE|PUBLIC)_/i

export const isSecretVariable = (name: string): boolean =>
  secretVariable.test(name) || (/_KEY$/i.test(name) && !publicKey.test(name))

export function assignmentFindings(name: string, value: Arg | null): Finding[] {
  if (hidesSubstitution(value?.value ?? '')) return [ambiguous(hidden)]
  const why = environmentWhy(name, value?.value ?? null)
  return why === null ? [] : [ambiguous(why)]
}

/** Arithmetic evaluates a variable's text as an expression, and with it a substitution in an array index. */
export const hidden = 'A substitution is hidden in an array index'
export const hidesSubstitution = (text: string): boolean => {
  const at = text.indexOf('[')
  return at >= 0 && (text.includes('$(', at) || text.includes('`', at))
}

/** `NAME=value` as a plain word, for `env` and its like. */
export function assignmentOf(arg: Arg): { name: string; value: string } | null {
  const at = arg.value.indexOf('=')
  const name = arg.value.slice(0, at)
  return at > 0 && /^[A-Za-z_]\w*$/.test(name) ? { name, value: arg.value.slice(at + 1) } : null
}

/** A variable that holds a path outside may be used anywhere later. */
export function assignedOutside(
  name: string,
  arg: Arg,
  around: Surroundings,
  isInside: (path: string) => boolean,
): Finding[] {
  const texts = name === 'PATH' ? foldersIn(arg, around) : [arg]
  const outside = texts
    .flatMap((text) => locate(text, around, isInside).paths)
    .find((path) => !isInside(path) && !isProgramPath(path))
  return outside ? [ambiguous(`"${name}" is set to a path outside: ${outside}`)] : []
}

/** Set by itself, it is there for the commands that follow. Files of variables are named for one command all the time. */
export function assignedSecret(name: string, arg: Arg): Finding[] {
  const isSecret = isKnown(arg) && arg.value !== '' && isSecretPath(`/${arg.value}`)
  const handed = arg.variables.find(isSecretVariable)
  if (handed && !isSecretVariable(name)) return [ambiguous(`"${name}" is set to "${handed}"`)]
  return isSecret ? [ambiguous(`"${name}" is set to a file of secrets: ${arg.value}`)] : []
}

const installed = /^\/(?:usr|bin|sbin|opt|snap|nix|home\/linuxbrew)(?:\/|$)/

/** Programs of the system and of the user's home are there to be run. */
const foldersIn = ({ value }: Arg, { home }: Surroundings): Arg[] =>
  value
    .split(':')
    .filter((part) => part !== '' && !part.includes(hole) && !installed.test(part))
    .filter((part) => !part.startsWith('~') && !(home && part.startsWith(`${home}/`)))
    .map(literalArg)
