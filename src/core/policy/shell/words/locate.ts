import { expandHomePath, normalPath, resolvePath } from '../../matching/paths.ts'
import { type Arg, hole, type Surroundings } from './arg.ts'
import { ambiguous, type Finding } from './finding.ts'

interface Located {
  paths: string[]
  findings: Finding[]
  /** It may be any path at all. */
  any?: true
}
const nothing: Located = { paths: [], findings: [] }
const unclear = (why: string): Located => ({ paths: [], findings: [ambiguous(why)], any: true })
const later = 'A path is known only when it runs'

const devices =
  /^\/dev\/(?:null|zero|full|random|urandom|tty|stdin|stdout|stderr|fd(?:\/\d+)?)$|^\/proc\/self\/fd\/\d+$/
const programFolders = /^(?:\/usr(?:\/local)?)?\/s?bin\/[^/]+$/
/** After a variable that may be empty, these would be absolute. */
const systemFolders =
  /^\/(?:etc|root|home|usr|var|proc|sys|dev|tmp|opt|boot|mnt|srv|run|lib|bin|sbin|Users|private)(?:\/|$)/

export const isProgramPath = (path: string): boolean => programFolders.test(path)
/** Named in arguments all the time, and read by everything that runs. */
export const isInterpreterPath = (path: string): boolean =>
  isProgramPath(path) &&
  /\/(?:sh|bash|dash|zsh|env|python[\d.]*|node|perl|ruby|true|false)$/.test(path)
/** Folders that every system has. */
export const isSystemPath = (path: string): boolean => systemFolders.test(path)

/** Where an argument leads, if it is a path. Names without a slash or a dot are taken for words. */
export function locate(
  arg: Arg,
  around: Surroundings,
  isInside: (path: string) => boolean,
): Located {
  const { value } = arg
  if (arg.expands) return unclear('A path is hidden in a pattern')
  const absolute = absoluteOf(arg, around)
  if (absolute !== null) {
    const path = normalPath(beforeHole(absolute))
    if (devices.test(path)) return nothing
    // The folder is certain; what is meant in it is not.
    if (!absolute.includes(hole)) return { paths: [path], findings: [] }
    return isInside(path)
      ? unclear(later)
      : { paths: [path], findings: [ambiguous(later)], any: true }
  }
  if (value.includes(hole)) {
    const { paths } = climbs(beforeHole(value))
      ? locateRelative(beforeHole(value), around, isInside)
      : nothing
    return { ...unclear(later), paths }
  }
  if (!arg.globs && !looksLikePath(value)) return nothing
  const located = locateRelative(value, around, isInside)
  if (!arg.globs || !value.split('/').some(mayClimb)) return located
  return { ...unclear('A pattern may lead to the folder above'), paths: located.paths }
}

/** `.?` and `.*` are the folder above, too. */
const mayClimb = (part: string): boolean =>
  /^\.[^.]*[*?[]/.test(part) && /^\.(?:[*?]|\[[^\]]{0,40}\])[*?]*$/.test(part)

function absoluteOf({ value, text }: Arg, { home, folders }: Surroundings): string | null {
  if (value.startsWith('/')) return value
  if (value === '~' || value.startsWith('~/')) return expandHomePath(value, home)
  if (/^~\+(?:\/|$)/.test(text)) return `${folders[0] ?? ''}${value.slice(2)}`
  const user = /^~([\w-]+)/.exec(text)?.[1]
  if (!user) return null
  const theirs = user === 'root' ? '/root' : `/home/${user}`
  return `${theirs}${value.slice(user.length + 1)}`
}

function locateRelative(
  value: string,
  { folders }: Surroundings,
  isInside: (path: string) => boolean,
): Located {
  const paths = [...new Set(folders.map((folder) => resolvePath(folder, value)))]
  const outside = paths.filter((path) => !isInside(path))
  if (outside.length > 0 && outside.length < paths.length)
    return unclear('A path is outside the workspace if a change of folder fails')
  return { paths, findings: [] }
}

const climbs = (path: string): boolean => /(?:^|\/)\.\.(?:\/|$)/.test(path)

/** The folder that is certain: "/etc/pass" and something may be any file in /etc. */
const beforeHole = (path: string): string => {
  const at = path.indexOf(hole)
  return at < 0 ? path : path.slice(0, path.lastIndexOf('/', at) + 1) || '.'
}

const looksLikePath = (value: string): boolean =>
  value.includes('/') ||
  /^\.{1,2}$/.test(value) ||
  /^\.?[\w@-]+(?:\.[\w*-]+)+$/.test(value) ||
  /^\.[\w[{?*]/.test(value) ||
  /^id_(?:rsa|dsa|ecdsa|ed25519)$/.test(value)
