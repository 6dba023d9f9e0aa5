import { namesSecretPath, secretFileNames } from '../../../contract/secret-paths.ts'
import { matchesText, textGlob, globWithoutBrackets } from './text-globs.ts'

/** Paths are text here: nothing is looked up. The sandbox compares real paths before it acts. */

export interface Boundary {
  workspaceRoot: string
  sessionPaths: readonly string[]
}

/** Absolute, without "." and "..", without a slash at the end. */
export function normalPath(path: string): string {
  const kept: string[] = []
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue
    if (part === '..') kept.pop()
    else kept.push(part)
  }
  return `/${kept.join('/')}`
}

export const resolvePath = (from: string, path: string): string =>
  normalPath(path.startsWith('/') ? path : `${from}/${path}`)

/** Of a path as a person or a program writes it. Without a known home, "~" is a folder that nothing contains. */
export function expandHomePath(path: string, home: string | undefined): string {
  if (path === '~' || path.startsWith('~/')) return `${home ?? '/~'}${path.slice(1)}`
  return path
}

export const isWithin = (path: string, folder: string): boolean =>
  path === folder || folder === '/' || path.startsWith(`${folder}/`)

export const isSessionPath = (path: string, { sessionPaths }: Boundary): boolean =>
  sessionPaths.some((allowed) => isWithin(path, allowed))

export const isInside = (path: string, boundary: Boundary): boolean =>
  isWithin(path, boundary.workspaceRoot) || isSessionPath(path, boundary)

/** Settings, hooks and records of git. Some file systems take capitals for the same. */
export const isGitFile = (path: string): boolean => /\/\.git(?:\/|$)/i.test(path)

/** What a pattern for hidden files is most likely after. */
const hiddenSecrets = [
  ...['.env', '.env.local', '.envrc', '.netrc', '.ssh', '.aws', '.gnupg', '.dev.vars'],
  ...['.vault-token', '.dockercfg', '.terraformrc'],
]

/** `.e*`, `.[e]nv`, `.e{nv,x}`; what is no pattern is compared by name. */
function mayNameSecret(part: string): boolean {
  if (!/[*?[{]/.test(part) || part.length > maxPattern) return false
  if (!part.startsWith('.')) return mayNamePlainSecret(part)
  const listed = [...part.matchAll(/\{([^{}]{0,100})\}/g)].flatMap(([whole, list = '']) =>
    list.split(',').map((item) => part.replace(whole, item)),
  )
  return [part, ...listed].some((each) => hiddenSecrets.some((name) => fits(each, name)))
}

/** `id_r*`, `cred*`, `*.ke?`, `prod.e*`; not `*` and `*.json`, which are after something else. */
function mayNamePlainSecret(part: string): boolean {
  const isNamed = /^[^*?[{]{3}/.test(part)
  const ending = part.slice(part.lastIndexOf('.'))
  return (
    (isNamed && secretFileNames.some((name) => fits(part, name))) ||
    ((isNamed ? /^\.[a-z]/.test(ending) : /\.[a-z]/.test(part)) &&
      plainEndings.some((one) => fits(ending, one)))
  )
}
const plainEndings = ['.p12', '.pfx', '.jks', '.keystore', '.kdbx', '.key', '.env', '.tfstate']

const maxPattern = 100
const fits = (pattern: string, name: string): boolean =>
  matchesText(textGlob(globWithoutBrackets(pattern)), name)

/** Whether the file holds credentials, by its name; a pattern counts for what it may name. */
export function isSecretPath(path: string): boolean {
  const lower = path.toLowerCase()
  if (/[*?[{]/.test(lower) && lower.split('/').some(mayNameSecret)) return true
  return namesSecretPath(path)
}
