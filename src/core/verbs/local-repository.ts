import { AppError } from '../../contract/error.ts'
import type { Caller } from '../session/record/caller.ts'

/**
 * Repositories that the sandbox host reads with its own rights: a path, a `file://` URL, and `ssh://`, which uses the ssh
 * agent of whoever runs it. Only an admin may name one, and only one that GANTRY_LOCAL_REPOSITORIES lists. The verbs
 * that store a repository ask here; the host asks `isRepositoryListed` again, with the paths to which links really lead.
 */
export function mustMayCloneRepository(
  { localRepositories }: { localRepositories: readonly string[] },
  { scopes = [] }: Pick<Caller, 'scopes'>,
  url: string | undefined,
): void {
  if (url === undefined || /^https?:/i.test(url)) return
  const why = 'It is read with the rights of the machine that runs the sandboxes'
  if (!scopes.includes('admin')) {
    const message = `${why}, so a key with the scope "admin" must name it. Use an https URL, or a configuration that an admin has made`
    throw new AppError('forbidden', `Cannot use this repository: ${message}`)
  }
  if (isRepositoryListed(url, localRepositories)) return
  const message = `${why}, and GANTRY_LOCAL_REPOSITORIES does not list it. ${howToListRepository(url)}`
  throw new AppError('unprocessable', `Cannot use this repository: ${message}`, [
    { path: 'repository.url', message: 'Not in GANTRY_LOCAL_REPOSITORIES' },
  ])
}

/** For whoever runs the deployment. */
export function howToListRepository(url: string): string {
  const wanted = /^ssh:/i.test(url) ? 'a URL like ssh://git@host/folder' : 'a folder above it'
  return `Add it or ${wanted} to that variable, separated by commas, and start again`
}

/** Itself, or something that it is in: folders for paths, and for ssh a user at a host with a folder. */
export function isRepositoryListed(url: string, listed: readonly string[]): boolean {
  const place = placeOf(url)
  if (place === null) return false
  return listed.some((entry) => {
    const above = placeOf(entry)?.replace(/\/+$/, '')
    return above !== undefined && (place === above || place.startsWith(`${above}/`))
  })
}

/** Null: it goes up somewhere, or nobody can read it. */
function placeOf(url: string): string | null {
  try {
    const place = url.startsWith('/') ? url : placeOfUrl(url)
    return place === null || /(^|\/)\.{1,2}(\/|$)/.test(place)
      ? null
      : place.replaceAll(/\/+/g, '/')
  } catch {
    return null
  }
}

function placeOfUrl(url: string): string | null {
  const [, protocol, user = '', host = '', path = ''] =
    /^(file|ssh):\/\/([^/@]*@)?([^/@]*)(\/.*)$/.exec(url) ?? []
  if (protocol === 'file') return user + host === '' ? decodeURIComponent(path) : null
  return protocol === 'ssh' ? `ssh ${user}${host.toLowerCase()}${decodeURIComponent(path)}` : null
}
