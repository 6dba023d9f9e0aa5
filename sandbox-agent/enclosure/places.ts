// What OpenCode sees of the file system: a list of folders and files, each at its own place and read-only unless it is
// the session's. Everything that is not on the list does not exist inside. Folders on PATH come with the install root
// that they belong to, unless that root holds credentials or anything of Gantry's.

import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { Layout } from '../../src/contract/manifest.ts'
import { contractPlaceBinds } from './contract-place.ts'

export interface Bind {
  /** Outside. */
  source: string
  /** Inside. */
  target: string
  writable: boolean
}

export interface Places {
  binds: Bind[]
  /** Symlinks of the system's root, such as /bin to usr/bin. */
  links: { path: string; to: string }[]
}

export interface PlacesInput {
  layout: Layout
  /** Binaries that are run inside, by their paths. */
  binaries: readonly string[]
  /** As OpenCode's PATH has them. */
  path: readonly string[]
  /** Never to be seen inside, nor anything in it. */
  hidden: readonly string[]
}

const systemFolders = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']

export function findPlaces({ layout, binaries, path, hidden }: PlacesInput): Places {
  const links = systemFolders.filter(isLink).map((each) => ({ path: each, to: readlinkSync(each) }))
  const system = ['/usr', '/etc', '/nix', ...systemFolders.filter((each) => !isLink(each))]
  const tools = [
    ...binaries.map((each) => binaryPlace(each, hidden)),
    ...path.flatMap((each) => toolPlaces(each, hidden)),
    ...[rustupPlace(path, hidden)].filter((each) => each !== undefined),
  ]
  const readable = [...system, ...outermost(tools, system), layout.configDir].filter(existsSync)
  const temporary = dirname(layout.envFile)
  const binds = [
    ...readable.map((each) => ({ source: each, target: each, writable: false })),
    ...[layout.home, layout.workspace, temporary].map((each) => bind(each, each)),
    ...contractPlaceBinds(layout),
    // The contract's literal place; on the machine's own disk, because a large build would fill the memory.
    ...(temporary === '/tmp' ? [] : [bind(temporary, '/tmp')]),
  ]
  return { binds, links }
}

const bind = (source: string, target: string): Bind => ({ source, target, writable: true })

const isLink = (path: string) =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true

/** The folder of a binary, or the binary alone where its folder holds what must not be seen. */
function binaryPlace(binary: string, hidden: readonly string[]): string {
  const folder = dirname(binary)
  return isAllowed(folder, hidden) ? folder : binary
}

function toolPlaces(folder: string, hidden: readonly string[]): string[] {
  if (!folder.startsWith('/') || !isFolder(folder)) return []
  const real = realpathSync(folder)
  const found = [...new Set([folder, real])].filter((each) => isAllowed(each, hidden))
  const root = dirname(real)
  const isInstallRoot =
    ['bin', 'shims', 'sbin'].includes(basename(real)) &&
    !['.local', 'local'].includes(basename(root)) &&
    isAllowed(root, hidden) &&
    !holdsCredentials(root)
  return isInstallRoot ? [...found, root] : found
}

/** The programs that rustup puts on PATH only choose one of those that it keeps beside it. */
export function rustupPlace(
  path: readonly string[],
  hidden: readonly string[],
): string | undefined {
  const folder = path.find((each) => existsSync(`${each}/rustup`))
  const home = folder && `${dirname(dirname(folder))}/.rustup`
  if (!home || !isFolder(`${home}/toolchains`)) return undefined
  return isAllowed(home, hidden) && !holdsCredentials(home) ? home : undefined
}

/** False also for what cannot be reached. */
const isFolder = (path: string) => existsSync(`${path}/.`)

/** A home is no install root, whatever lies on PATH in it; nor is what holds something that must not be seen. */
function isAllowed(path: string, hidden: readonly string[]): boolean {
  const homes = ['/', '/root', '/home', '/var', '/run', '/tmp', '/proc', '/sys', '/dev']
  if (homes.includes(path) || /^\/(home|Users)\/[^/]+$/.test(path)) return false
  return !hidden.some((each) => isInsidePlace(each, path) || isInsidePlace(path, each))
}

const credentials =
  /^(credentials(\.\w+)?|\.credentials|\.npmrc|\.netrc|\.pypirc|\.git-credentials|\.ssh|\.aws|\.gnupg|\.config|\.env|auth\.json)$/

function holdsCredentials(folder: string): boolean {
  try {
    return readdirSync(folder).some((name) => credentials.test(name))
  } catch {
    return true // who cannot look cannot say
  }
}

const outermost = (paths: readonly string[], covered: readonly string[]): string[] => {
  const unique = [...new Set(paths)]
  return unique.filter(
    (path) =>
      ![...covered, ...unique].some((other) => other !== path && isInsidePlace(path, other)) &&
      !covered.includes(path) &&
      !systemFolders.some((folder) => isInsidePlace(path, folder)),
  )
}

/** Itself, too. */
export const isInsidePlace = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`)
