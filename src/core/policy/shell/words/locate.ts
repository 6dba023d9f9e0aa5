import { expandHome, normalPath, resolvePath } from '../../matching/paths.ts'
import { type Arg, hole, type Surroundings } from './arg.ts'
import { ambiguous, type Finding } from './finding.ts'

interface Located {
  paths: string[]
  findings: Finding[]
}
const nothing: Located = { paths: [], findings: [] }
const unclear = (why: string): Located => ({ paths: [], findings: [ambiguous(why)] })

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
  if (arg.expands && hidesPath(value)) return unclear('A path is hidden in a list in braces')
  if (arg.variables.includes('OLDPWD')) return unclear('The folder before is not known')
  const absolute = absoluteOf(arg, around)
  if (absolute !== null) {
    if (climbsAfterHole(absolute)) return unclear('A path is put together when it runs')
    const path = normalPath(beforeHole(absolute))
    return devices.test(path) ? nothing : { paths: [path], findings: [] }
  }
  if (value.startsWith(hole)) return locateRest(value)
  if (!looksLikePath(value)) return nothing
  if (climbsAfterHole(value)) return unclear('A path is put together when it runs')
  return locateRelative(beforeHole(value), around, isInside)
}

function absoluteOf({ value, text }: Arg, { home, folders }: Surroundings): string | null {
  if (value.startsWith('/')) return value
  if (value === '~' || value.startsWith('~/')) return expandHome(value, home)
  if (/^~\+(?:\/|$)/.test(text)) return `${folders[0] ?? ''}${value.slice(2)}`
  const user = /^~([\w-]+)/.exec(text)?.[1]
  if (!user) return null
  const theirs = user === 'root' ? '/root' : `/home/${user}`
  return `${theirs}${value.slice(user.length + 1)}`
}

function locateRest(value: string): Located {
  const rest = value.replaceAll(hole, '')
  return systemFolders.test(rest) || climbs(rest)
    ? unclear('A path is put together when it runs')
    : nothing
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
const climbsAfterHole = (path: string): boolean =>
  path.includes(hole) && climbs(path.slice(path.indexOf(hole)))

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

/** `{/etc,x}/passwd`, `{..,.}/x` */
const hidesPath = (value: string): boolean =>
  /[{,](?:\/|~|\.\.(?:\/|,|\}))/.test(value) || !value.includes('{')
