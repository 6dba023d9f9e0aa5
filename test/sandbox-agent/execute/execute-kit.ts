import { execFileSync } from 'node:child_process'
import { createHash, randomBytes, randomInt } from 'node:crypto'
import { chmodSync, lchownSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { onTestFinished } from 'vitest'
import { AttemptId, idAlphabet } from '../../../src/contract/ids.ts'
import { IsolationPlan, Operation, type Strategy } from '../../../src/contract/operation.ts'
import { Executor } from '../../../sandbox-agent/execute/executor.ts'
import type { Site } from '../../../sandbox-agent/execute/run/site.ts'
import type { Upload } from '../../../sandbox-agent/execute/read/read.ts'
import type { Owner } from '../../../sandbox-agent/workspace/folder.ts'
import { killMarked } from '../../../sandbox-agent/marked-processes.ts'
import { temporaryFolder } from '../support.ts'
import { isRoot } from '../../support/needs.ts'

/** As on the local host and the remote images: the agent is root, and the sandbox another. Without root they are one. */
const uid = randomInt(40_000, 60_000)
export const sandboxUser: Owner | undefined = isRoot ? { uid, gid: uid } : undefined

export const newAttempt = () =>
  AttemptId.parse(`att_${[...randomBytes(38)].map((byte) => idAlphabet[byte % 32]).join('')}`)

export function planOf(
  strategy: Strategy,
  change: object = {},
  limits: object = {},
): IsolationPlan {
  return IsolationPlan.parse({
    strategy,
    pathConstraints: [],
    conditions: [],
    realPathFirst: true,
    network: false,
    limits: {
      timeoutMs: 15_000,
      memoryBytes: 512 * 1024 * 1024,
      processes: 64,
      outputBytes: 64 * 1024,
      ...limits,
    },
    enforce: [],
    notEnforced: [],
    limitations: [],
    ...change,
  })
}

const categories: Record<string, string> = {
  'read-file': 'read',
  'list-folder': 'read',
  git: 'git',
  run: 'shell',
  fetch: 'network',
}

export const operationOf = (operation: string, fields: object = {}): Operation =>
  Operation.parse({ category: categories[operation] ?? 'edit', operation, ...fields })

/** A workspace that belongs to the sandbox's user, in a folder that does not. */
export function makePlace(owner: Owner | undefined) {
  const root = temporaryFolder()
  chmodSync(root, 0o711)
  const site: Site = {
    workspace: join(root, 'workspace'),
    home: join(root, 'home'),
    owner,
    path: process.env['PATH'] ?? '/usr/bin:/bin',
    marks: { GANTRY_MARK: 'test', GANTRY_SANDBOX: `test.${randomBytes(6).toString('hex')}` },
  }
  for (const folder of [site.workspace, site.home]) mkdirSync(folder)
  give(site, site.workspace)
  give(site, site.home)
  const mark = `GANTRY_SANDBOX=${site.marks['GANTRY_SANDBOX']}`
  onTestFinished(async () => {
    await killMarked({ mark, uid: undefined })
  })
  return { root, site, mark }
}

export function give({ owner }: Site, path: string): void {
  if (owner) lchownSync(path, owner.uid, owner.gid)
}

function giveAll(site: Site, path: string): void {
  give(site, path)
  for (const entry of readdirSync(path, { withFileTypes: true, recursive: true }))
    give(site, join(entry.parentPath, entry.name))
}

export function put(site: Site, path: string, content: string | Buffer): void {
  const whole = join(site.workspace, path)
  const made = mkdirSync(dirname(whole), { recursive: true })
  if (made !== undefined) giveAll(site, made)
  writeFileSync(whole, content)
  give(site, whole)
}

/** Git as a person in the sandbox would use it. */
function asUser(site: Site) {
  const run = (file: string, ...args: string[]) =>
    execFileSync(file, args, {
      cwd: site.workspace,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: site.path,
        HOME: site.home,
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_AUTHOR_NAME: 'p',
        GIT_AUTHOR_EMAIL: 'p@p',
        GIT_COMMITTER_NAME: 'p',
        GIT_COMMITTER_EMAIL: 'p@p',
      },
      ...site.owner,
    }).trimEnd()
  return { run, git: (...args: string[]) => run('git', ...args) }
}

export function makeExecutor(site: Site, folder: string, change: object = {}) {
  const uploads: { path: string; content: Buffer }[] = []
  const upload: Upload = async (path, content, contentType = 'application/octet-stream') => {
    uploads.push({ path, content })
    const sha256 = createHash('sha256').update(content).digest('hex')
    return { path, size: content.length, sha256, contentType }
  }
  const executor = new Executor({
    folder,
    site: async () => site,
    probeSite: site,
    abilityFolder: () => Promise.reject(new Error('There are no abilities')),
    upload,
    maxReportBytes: 960 * 1024,
    ...change,
  })
  return { executor, uploads }
}

/** A repository with two commits, and an executor for it. */
export function makeRepository() {
  const { root, site, mark } = makePlace(sandboxUser)
  const user = asUser(site)
  user.git('init', '-q', '-b', 'main')
  put(site, 'kept.txt', 'one\ntwo\nthree\n')
  put(site, 'src/a.ts', 'export const a = 1\n')
  user.git('add', '-A')
  user.git('commit', '-qm', 'first')
  put(site, 'later.txt', 'later\n')
  user.git('add', '-A')
  user.git('commit', '-qm', 'second')
  const { executor, uploads } = makeExecutor(site, join(root, 'attempts'))
  const perform = (operation: string, fields: object = {}, attemptId = newAttempt()) =>
    executor.execute({
      attemptId,
      operation: operationOf(operation, fields),
      plan: planOf('git-worktree'),
    })
  return { root, site, mark, ...user, executor, uploads, perform }
}
