// Takes out of a copy what must not travel with it: OpenCode's and the agent's own data, credentials, histories, files
// of other users, sockets and devices. It changes only the copy and follows no link. Local snapshots call it by
// take.ts, remote ones by scrub-main.ts.

import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  type Stats,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import {
  cleanGitCredentials,
  cleanRegistryCredentials,
  withoutUserInfo,
} from './credential-text.ts'

const words = (text: string) => text.trim().split(/\s+/)

/** Of the home: OpenCode's and the agent's own data, credentials, and what people have typed. */
export const homeLeftOut: readonly string[] = words(`
  .local/share/opencode .local/state/opencode .cache/opencode .config/opencode .opencode .claude .codex
  .gantry-diff.git
  .netrc _netrc .git-credentials .config/git/credentials .ssh .gnupg .password-store .local/share/keyrings
  .aws .azure .config/gcloud .kube .docker/config.json .config/containers/auth.json .terraform.d .vault-token
  .config/gh .config/hub .config/glab-cli .config/doctl .config/op .config/stripe .config/heroku .config/rclone
  .config/.wrangler .config/netlify .config/configstore .local/share/com.vercel.cli .fly .s3cfg .boto
  .pypirc .cargo/credentials .cargo/credentials.toml .gem/credentials .bundle/config .composer/auth.json
  .config/composer/auth.json .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties
  .nuget/NuGet/NuGet.Config .huggingface .cache/huggingface/token .databrickscfg .pgpass .my.cnf .mylogin.cnf
  .bash_history .zsh_history .sh_history .python_history .node_repl_history .psql_history .mysql_history
  .rediscli_history .sqlite_history .viminfo .lesshst`)

/** Of the workspace: evidence belongs to the session that made it. */
const workspaceLeftOut = ['.proliferate/.verification', '.git/opencode']

/** Wherever they are. */
const credentialNames = new Set(
  words('.netrc _netrc .git-credentials .vault-token .pgpass .proliferate_env.json'),
)
const registryNames = new Set(words('.npmrc .yarnrc .yarnrc.yml .pnpmrc pip.conf .pypirc'))
const maxTextBytes = 4 * 1024 * 1024

interface ScrubOptions {
  /** The sandbox's user. What belongs to another is not the sandbox's, however it came there. */
  uid: number | undefined
  /** Relative to the workspace. */
  generatedFiles: readonly string[]
}

/** Takes out of a copy what must not travel. Gives the size of what is left. */
export function scrubCopy(copy: string, options: ScrubOptions): number {
  return scrubFolders(join(copy, 'workspace'), [copy], options)
}

/** Of a home that was copied as it is. */
export function scrubHome(home: string): void {
  for (const path of homeLeftOut) removeInside(home, path)
}

/** The workspace is in, or is, one of the folders. */
export function scrubFolders(workspace: string, folders: string[], options: ScrubOptions): number {
  const ours = takeExcluded(workspace)
  for (const path of [...ours, ...workspaceLeftOut, ...options.generatedFiles])
    removeInside(workspace, path)
  let bytes = 0
  for (const folder of folders) {
    for (const { path, stat } of walkForScrub(folder)) {
      if (mustGo(path, stat, options.uid)) remove(path)
      else bytes += stat.isFile() ? cleanFile(path, stat) : 0
    }
  }
  return bytes
}

interface Entry {
  path: string
  stat: Stats
}

/** Files, links and folders below it, a folder before what is in it. Follows no link. */
export function* walkForScrub(folder: string): Generator<Entry> {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    const stat = lstatSync(path)
    yield { path, stat }
    if (stat.isDirectory()) yield* walkForScrub(path)
  }
}

function mustGo(path: string, stat: Stats, uid: number | undefined): boolean {
  if (stat.isDirectory() || stat.isSymbolicLink()) return false
  if (!stat.isFile()) return true // a socket, a pipe or a device
  if (uid !== undefined && stat.uid !== uid) return true
  return credentialNames.has(basename(path)) || isGitLeftover(path)
}

/** What git did not finish: it does not read it itself, so it could not be searched. */
function isGitLeftover(path: string): boolean {
  if (/\/objects\/([0-9a-f]{2}|pack)\/tmp_[^/]+$/.test(path)) return true
  return /\/objects\/pack\/[^/]+\.pack$/.test(path) && !existsSync(path.replace(/pack$/, 'idx'))
}

/** The file's size afterwards. */
function cleanFile(path: string, stat: Stats): number {
  const clean = cleanerOf(path)
  if (clean === undefined || stat.size > maxTextBytes) return stat.size
  // One character per byte, so that whatever else is in the file stays as it is.
  const before = readFileSync(path, 'latin1')
  const after = clean(before)
  if (after !== before) replaceFile(path, Buffer.from(after, 'latin1'), stat)
  return after.length
}

function cleanerOf(path: string): ((text: string) => string) | undefined {
  const name = basename(path)
  if (registryNames.has(name)) return cleanRegistryCredentials
  if (name === '.gitconfig' || path.endsWith('/.config/git/config')) return cleanGitCredentials
  if (name === 'config' || name === 'config.worktree')
    return existsSync(join(dirname(path), 'HEAD')) ? cleanGitCredentials : undefined
  return name === 'FETCH_HEAD' || path.includes('/.git/logs/') ? withoutUserInfo : undefined
}

const excludeHead = '# Written by Gantry\n'

/** The files that the agent wrote into the workspace; it lists them for git, and the list goes, too. */
function takeExcluded(workspace: string): string[] {
  const path = join(workspace, '.git', 'info', 'exclude')
  if (!isPlain(workspace, relative(workspace, path))) return []
  const stat = lstatSync(path, { throwIfNoEntry: false })
  if (stat?.isFile() !== true || stat.size > maxTextBytes) return []
  const [kept = '', ours] = readFileSync(path, 'utf8').split(excludeHead)
  if (ours === undefined) return []
  replaceFile(path, Buffer.from(kept), stat)
  return ours
    .split('\n')
    .filter((line) => line.startsWith('/'))
    .map((line) => line.slice(1))
}

// Not in place: the file may be read-only, and is one with every other name that it has.
function replaceFile(path: string, content: Buffer, { mode, uid, gid }: Stats): void {
  remove(path)
  inWritable(dirname(path), () => writeFileSync(path, content, { mode: mode & 0o777, flag: 'wx' }))
  if (process.getuid?.() === 0) chownSync(path, uid, gid)
}

function remove(path: string): void {
  inWritable(dirname(path), () => rmSync(path, { recursive: true, force: true }))
}

/** Package caches have folders that even their owner may not write to. */
function inWritable(folder: string, work: () => void): void {
  try {
    work()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error
    const { mode } = lstatSync(folder)
    chmodSync(folder, mode | 0o700)
    work()
    chmodSync(folder, mode)
  }
}

/** And the folders that it leaves empty. What leads out of the folder, by `..` or by a link, is left alone. */
function removeInside(folder: string, path: string): void {
  if (!isPlain(folder, path)) return
  remove(join(folder, path))
  for (let parent = dirname(path); parent !== '.'; parent = dirname(parent)) {
    try {
      rmdirSync(join(folder, parent))
    } catch {
      return
    }
  }
}

function isPlain(folder: string, path: string): boolean {
  const names = path.split('/')
  if (names.some((name) => name === '' || name === '.' || name === '..')) return false
  return names.slice(0, -1).every((_, index) =>
    lstatSync(join(folder, ...names.slice(0, index + 1)), {
      throwIfNoEntry: false,
    })?.isDirectory(),
  )
}
