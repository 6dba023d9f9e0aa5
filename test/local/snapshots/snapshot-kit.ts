import { randomBytes } from 'node:crypto'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { onTestFinished } from 'vitest'
import { binary } from '../../../local/binaries.ts'
import { type HostOptions, startHost } from '../../../local/host/host.ts'
import { findProcesses, killProcesses } from '../../../local/processes/processes.ts'
import { siteFolders } from '../../../local/users/sandbox-site.ts'
import type { Uids } from '../../../local/users/uids.ts'
import { createLocalSandboxes } from '../../../src/adapters/sandboxes/local.ts'
import type { SandboxProvider, SnapshotInput } from '../../../src/core/ports.ts'
import { sandboxSpec } from '../../support/sandbox-spec.ts'
import { tempDir, until } from '../support.ts'

const secret = 'a-secret-for-the-host'
export const organisation = `org_${'a'.repeat(20)}`
export const otherOrganisation = `org_${'b'.repeat(20)}`
// Of this run alone: sandboxes are found by their names, by other test files on this machine, too.
const run = randomBytes(12).toString('hex')
export const sessionIds = Array.from(
  { length: 9 },
  (_, index) => `ses_${run}${String(index).repeat(6)}`,
)
export const snapshotIds = Array.from(
  { length: 9 },
  (_, index) => `snp_${String(index).repeat(20)}`,
)

const agent = `
import { writeFileSync, renameSync } from 'node:fs'
import { text } from 'node:stream/consumers'
const boot = JSON.parse(await text(process.stdin))
writeFileSync(boot.stateDir + '/boot.new', JSON.stringify(boot))
renameSync(boot.stateDir + '/boot.new', boot.stateDir + '/boot.json')
console.error(JSON.stringify({ msg: 'ready' }))
process.on('SIGTERM', () => process.exit(0))
setInterval(() => undefined, 1000)
`

interface Bench {
  provider: SandboxProvider
  root: string
  snapshots: string
  folder: string
  url: string
  close: () => Promise<void>
  /** A running sandbox. */
  start: (sessionId: string, snapshotId?: string | null, organisationId?: string) => Promise<Box>
  take: (snapshotId: string, sessionId: string, more?: Partial<SnapshotInput>) => Promise<number>
  ask: (method: string, path: string) => Promise<Response>
  /** Snapshots that are not whole. */
  drafts: () => string[]
}

export interface Box {
  name: string
  workspace: string
  home: string
  uid: number
  /** A shell command in the workspace, as the sandbox's user and with its marks. */
  run(script: string): string
  /** The same for a program that stays. */
  spawn(command: string, ...args: string[]): ChildProcess
  write(path: string, content: string | Buffer): void
  pids(): number[]
}

/** A host with its own folders; `cp` waits before each copy if told. */
export async function startBench(
  uids: Uids | undefined,
  overrides: Partial<HostOptions> = {},
): Promise<Bench> {
  const folder = tempDir()
  const options = optionsOf(folder, uids, overrides)
  const host = await startHost(options)
  onTestFinished(async () => {
    await host.close()
    if (overrides.root === undefined) execFileSync('rm', ['-rf', dirname(options.root)])
  })
  return benchOf(options.root, folder, host)
}

export function optionsOf(
  folder: string,
  uids: Uids | undefined,
  overrides: Partial<HostOptions> = {},
): HostOptions {
  writeFileSync(join(folder, 'agent.mjs'), agent)
  // A user of its own cannot pass through the closed temporary folder.
  const root = overrides.root ?? join(siteFolders(folder)[0] ?? '', 'sandboxes')
  mkdirSync(root, { recursive: true, mode: 0o711 })
  return {
    secret,
    root,
    stateDir: join(folder, 'agents'),
    mark: 'stk_snapshottest',
    node: binary('node'),
    agentFile: join(folder, 'agent.mjs'),
    opencode: binary('opencode'),
    path: [],
    ...(uids === undefined ? {} : { uids: [...uids] as [number, number] }),
    stopGraceMs: 400,
    ...overrides,
  }
}

export function benchOf(
  root: string,
  folder: string,
  host: { url: string; close: () => Promise<void> },
): Bench {
  const provider = createLocalSandboxes({ hostUrl: host.url, secret, root })
  const snapshots = join(dirname(root), 'snapshots')
  return {
    ...host,
    provider,
    root,
    snapshots,
    folder,
    drafts: () => readdirSync(join(snapshots, '.drafts')),
    ask: (method, path) =>
      fetch(`${host.url}${path}`, { method, headers: { authorization: `Bearer ${secret}` } }),
    start: async (sessionId, snapshotId = null, organisationId = organisation) => {
      const token = `token-of-${sessionId}`
      await provider.create(sandboxSpec({ sessionId, organisationId, token, snapshotId }))
      const booted = join(root, `${sessionId}.1`, 'agent', 'boot.json')
      await until(() => existsSync(booted))
      return boxOf(root, `${sessionId}.1`)
    },
    take: async (snapshotId, sessionId, more = {}) => {
      const order = { snapshotId, organisationId: organisation, sessionId, generation: 1 }
      return (await provider.snapshot({ ...order, secrets: [], ...more })).bytes
    },
  }
}

function boxOf(root: string, name: string): Box {
  const workspace = join(root, name, 'workspace')
  const home = join(root, name, 'home')
  const { uid, gid } = statSync(home)
  const user = process.getuid?.() === 0 ? { uid, gid } : {}
  const options = {
    ...user,
    cwd: workspace,
    env: { PATH: process.env['PATH'], HOME: home, GANTRY_SANDBOX: name },
  }
  return {
    name,
    workspace,
    home,
    uid,
    run: (script) => {
      const { status, stdout, stderr } = spawnSync('sh', ['-ec', script], {
        ...options,
        encoding: 'utf8',
      })
      if (status !== 0) throw new Error(stderr)
      return stdout.trim()
    },
    spawn: (command, ...args) => {
      const child = spawn(command, args, { ...options, stdio: 'ignore', detached: true })
      onTestFinished(async () => void (await killProcesses({ marks: [`GANTRY_SANDBOX=${name}`] })))
      return child
    },
    write: (path, content) => {
      const missing: string[] = []
      for (let each = dirname(path); !existsSync(each); each = dirname(each)) missing.push(each)
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, content)
      for (const each of [path, ...missing]) if ('uid' in user) chownSync(each, uid, gid)
    },
    pids: () => findProcesses({ marks: [`GANTRY_SANDBOX=${name}`] }),
  }
}

/** A PATH on which `cp` waits first. */
export function slowCopyPath(seconds: number): string {
  const folder = tempDir()
  // One process: a shell that is killed would leave its `sleep` behind.
  const script = `setTimeout(() => {
    const { status } = require('node:child_process').spawnSync('/bin/cp', process.argv.slice(2), { stdio: 'inherit' })
    process.exit(status ?? 1)
  }, ${seconds * 1000})`
  writeFileSync(join(folder, 'cp'), `#!${binary('node')}\n${script}\n`, { mode: 0o755 })
  return `${folder}:${process.env['PATH']}`
}

/** Paths of all files below, relative. */
export function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => !lstatSync(join(folder, path)).isDirectory())
    .sort()
}

export const textOf = (...path: string[]) => readFileSync(join(...path), 'utf8')
