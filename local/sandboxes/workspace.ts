// Makes the workspace of a new sandbox: an empty repository with one commit, or a clone. It runs outside of the
// sandbox, before anything in it does. A token for the clone reaches neither the URL nor .git/config. A failure says
// whose fault it is, so that a wrong URL is not tried again. Only sandbox.ts calls it.

import { execFile } from 'node:child_process'
import { realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gitFault, withHint } from '../../src/adapters/sandboxes/git-fault.ts'
import type { SandboxFault } from '../../src/core/ports.ts'
import { howToListRepository, isRepositoryListed } from '../../src/core/verbs/local-repository.ts'

const run = promisify(execFile)

export interface Repository {
  url: string
  ref: string | null
  token: string | null
}

/** The workspace cannot be made, and the provider is not at fault. */
export class WorkspaceError extends Error {
  readonly fault: SandboxFault
  constructor(fault: SandboxFault, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'WorkspaceError'
    this.fault = fault
  }
}

interface WorkspaceOptions {
  /** Does not exist yet. */
  path: string
  repository: Repository | null
  /** Given to git: the marks, so that it is found when the sandbox is stopped. */
  environment: Record<string, string>
  /** Holds git's own settings for this work; outside the sandbox. */
  settingsDir: string
  /** What may be cloned with the rights of this process. */
  localRepositories: readonly string[]
  timeoutMs: number
  signal: AbortSignal
}

export async function makeSandboxWorkspace(options: WorkspaceOptions): Promise<void> {
  const source = options.repository === null ? null : parseSource(options.repository)
  if (source !== null) mustBeListed(source, options.localRepositories)
  const git = gitRunner(options, source)
  if (source === null) {
    await git('init', '--quiet', '--template=', '--initial-branch=main', '--', options.path)
  } else {
    // --no-local: a local clone would share files with the original, whose owner would then be changed, too.
    const checkout = source.ref === null ? [] : ['--no-checkout']
    await git(
      'clone',
      '--quiet',
      '--template=',
      '--no-local',
      ...checkout,
      '--',
      source.url,
      options.path,
    )
  }
  const inside = (...args: string[]) => git('-C', options.path, ...args)
  if (source !== null && source.ref !== null) await inside('checkout', '--quiet', source.ref, '--')
  if (source === null || !(await hasCommit(inside))) {
    await inside('commit', '--quiet', '--allow-empty', '--message', 'Initial commit')
  }
}

const hasCommit = (inside: (...args: string[]) => Promise<void>) =>
  inside('rev-parse', '--quiet', '--verify', 'HEAD').then(
    () => true,
    () => false,
  )

interface Source {
  url: string
  protocol: 'file' | 'https' | 'http' | 'ssh'
  ref: string | null
  credential: { origin: string; user: string; token: string } | null
}

/** Takes a credential out of the URL, so that it cannot reach .git/config, and refuses what git must not be given. */
function parseSource({ url, ref, token }: Repository): Source {
  if (ref !== null && (ref.startsWith('-') || /[\p{Cc}\s]/u.test(ref))) {
    throw mistake(`Cannot use ref ${JSON.stringify(ref)}`)
  }
  if (token !== null && /\p{Cc}/u.test(token)) {
    throw mistake('Cannot use the repository token: it has control characters')
  }
  if (url.startsWith('/')) return { url, protocol: 'file', ref, credential: null }
  if (!URL.canParse(url)) {
    throw mistake(
      'Cannot use the repository URL: give an absolute path or an https://, ssh:// or file:// URL',
    )
  }
  const parsed = new URL(url)
  const loopback = ['127.0.0.1', 'localhost', '[::1]'].includes(parsed.hostname)
  const allowed = ['file:', 'https:', 'ssh:', ...(loopback ? ['http:'] : [])]
  if (!allowed.includes(parsed.protocol)) {
    throw mistake(`Cannot clone over "${parsed.protocol}//": use https, ssh or file`)
  }
  const protocol = parsed.protocol.slice(0, -1) as Source['protocol']
  if (!protocol.startsWith('http')) return { url, protocol, ref, credential: null }
  const secret = token ?? (decodeURIComponent(parsed.password) || null)
  const user = decodeURIComponent(parsed.username) || 'x-access-token'
  parsed.username = ''
  parsed.password = ''
  return {
    url: parsed.href,
    protocol,
    ref,
    credential: secret === null ? null : { origin: parsed.origin, user, token: secret },
  }
}

/** By where links lead: a listed folder may have one that leads out of it. */
function mustBeListed({ url, protocol }: Source, listed: readonly string[]): void {
  if (protocol === 'https' || protocol === 'http') return
  const places = listed.map((entry) => (entry.startsWith('/') ? realPathOf(entry) : entry))
  const path = url.startsWith('/') ? url : decodeURIComponent(new URL(url).pathname)
  if (isRepositoryListed(protocol === 'file' ? realPathOf(path) : url, places)) return
  throw mistake(
    `Cannot clone "${url}": GANTRY_LOCAL_REPOSITORIES does not list it. ${howToListRepository(url)}`,
  )
}

function realPathOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

const mistake = (message: string) => new WorkspaceError('user', message)

/** git speaks no protocol but that of the source: nothing that the other side says leads it to files of this machine. */
const settingsFor = (source: Source | null) => `[safe]
  directory = *
[core]
  hooksPath = /dev/null
  fsmonitor = false
[protocol]
  allow = never
[protocol "${source?.protocol ?? 'file'}"]
  allow = always
[submodule]
  recurse = false
[user]
  name = Gantry
  email = gantry@localhost
`

// The helper is bound to the origin, so that a redirect elsewhere is not told the credential.
const helper =
  '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$GANTRY_CLONE_USER" "$GANTRY_CLONE_TOKEN"; }; f'

function gitRunner(options: WorkspaceOptions, source: Source | null) {
  const settingsFile = join(options.settingsDir, 'gitconfig')
  writeFileSync(settingsFile, settingsFor(source), { mode: 0o644 })
  const credential = source?.credential ?? null
  const env: Record<string, string> = {
    ...options.environment,
    PATH: process.env['PATH'] ?? '/usr/bin:/bin',
    // Not that of this process: its .netrc would open what belongs to whoever runs it.
    HOME: options.settingsDir,
    // Its words are read, below.
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: settingsFile,
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '/bin/false',
    GIT_SSH_COMMAND: 'ssh -oBatchMode=yes -oStrictHostKeyChecking=accept-new',
    ...(process.env['SSH_AUTH_SOCK'] === undefined || source?.protocol !== 'ssh'
      ? {}
      : { SSH_AUTH_SOCK: process.env['SSH_AUTH_SOCK'] }),
    ...(credential === null
      ? {}
      : {
          GIT_CONFIG_COUNT: '1',
          GIT_CONFIG_KEY_0: `credential.${credential.origin}.helper`,
          GIT_CONFIG_VALUE_0: helper,
          GANTRY_CLONE_USER: credential.user,
          GANTRY_CLONE_TOKEN: credential.token,
        }),
  }
  return async (...args: string[]): Promise<void> => {
    try {
      await run('git', args, {
        env,
        timeout: options.timeoutMs,
        signal: options.signal,
        maxBuffer: 1e6,
      })
    } catch (error) {
      const { stderr = '', message, killed, code } = error as GitError
      if (code === 'ENOENT')
        throw new Error('Cannot find git: install it and try again', { cause: error })
      const why =
        killed === true ? `no end after ${options.timeoutMs / 1000} s` : (stderr || message).trim()
      const command = args.find((arg) => /^[a-z]/.test(arg)) ?? ''
      const reason = `Cannot make the workspace: git ${command}: ${why}`
      const found = ['clone', 'checkout'].includes(command) ? gitFault(why) : null
      if (found === null) throw new Error(reason, { cause: error })
      throw new WorkspaceError(found.fault, withHint(reason, found), { cause: error })
    }
  }
}

interface GitError extends Error {
  stderr?: string
  killed?: boolean
  code?: string | number
}
