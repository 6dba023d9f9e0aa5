import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { binary, root as repository } from '../../../local/binaries.ts'
import type { HostOptions } from '../../../local/host/host.ts'
import {
  processCommand,
  findProcesses,
  killProcesses,
  processStartTime,
} from '../../../local/processes/processes.ts'
import { sandboxName } from '../../../local/sandboxes/record.ts'
import { siteFolders } from '../../../local/users/sandbox-site.ts'
import { claimUids, type Uids } from '../../../local/users/uids.ts'
import { createLocalSandboxes } from '../../../src/adapters/sandboxes/local.ts'
import { cryptoCharacters } from '../../../src/adapters/web-crypto.ts'
import type { SandboxWorld } from '../../suites/sandbox-provider.ts'
import { sandboxSpec } from '../../support/sandbox-spec.ts'
import { startFaultyProxy } from './faulty-proxy.ts'

const secret = 'a-secret-for-the-host'

/** What a sandbox does, after the address that it is given: `spec({ gatewayUrl: doing('forks') })`. */
export const doing = (what: keyof typeof deeds) => `http://127.0.0.1:1/${what}`
const deeds = {
  nothing: 'sleep 600',
  forks: 'for each in $(seq 100); do sleep 600 & done; wait',
  hoards: `${binary('node')} -e 'b = Buffer.alloc(600 * 1024 * 1024, 1); setTimeout(() => b, 600_000)'`,
  litters: 'mktemp /tmp/litter.XXXXXX; mktemp -d /var/tmp/litter.XXXXXX; sleep 600',
}

/** Says what it was given, listens on a port as the relay does, and starts a shell that leaves its group. */
const agent = `
import { spawn } from 'node:child_process'
import { renameSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
const { gatewayUrl, stateDir, token, uid, gid } = JSON.parse(await text(process.stdin))
const script = ${JSON.stringify(deeds)}[new URL(gatewayUrl).pathname.slice(1) || 'nothing']
const server = createServer().listen(0, '127.0.0.1', () => {
  const user = uid === undefined ? {} : { uid, gid }
  spawn('setsid', ['sh', '-c', script], { ...user, cwd: '/', detached: true, stdio: 'ignore' })
  const path = stateDir + '/agent-' + process.pid + '.json'
  writeFileSync(path + '.new', JSON.stringify({ token, port: server.address().port }))
  renameSync(path + '.new', path)
  console.error(JSON.stringify({ msg: 'ready' }))
})
process.on('SIGTERM', () => process.exit(0))
`

export interface HostWorld extends SandboxWorld {
  options: HostOptions
  /** What the host has printed. */
  lines: string[]
  hostPid(): number
  /** Its processes, the agent among them. */
  pids(sessionId: string, generation: number): number[]
  /** Ports that its agents listen on. */
  ports(sessionId: string, generation: number): number[]
  /** As in a crash: it says goodbye to nobody. */
  killHost(): Promise<void>
  /** Again, over the same folders. */
  startHost(): Promise<void>
}

/** The real host as a process of its own, over real folders and users, with a stand-in for the agent. */
export async function startHostWorld(overrides: Partial<HostOptions> = {}): Promise<HostWorld> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-host-'))
  const claim = claimUids()
  const options = optionsIn(folder, claim?.uids, overrides)
  const { root, mark, uids } = options
  const snapshots = join(dirname(root), 'snapshots')
  const lines: string[] = []
  let host = await launch(options, lines)
  const proxy = await startFaultyProxy(host.url)
  options.port = Number(new URL(host.url).port)
  const providerAt = (hostUrl: string) => createLocalSandboxes({ hostUrl, secret, root })
  const folderOf = (...box: [string, number]) => join(root, sandboxName(...box))

  return {
    options,
    lines,
    provider: providerAt(proxy.url),
    away: providerAt('http://127.0.0.1:1'),
    spec: (more) =>
      sandboxSpec({
        sessionId: `ses_${cryptoCharacters(30)}`,
        token: `token-${cryptoCharacters(20)}`,
        ...more,
      }),
    kill: async (...box) => {
      await killProcesses({ marks: [`GANTRY_SANDBOX=${sandboxName(...box)}`] })
    },
    write: async (sessionId, generation, path, text) =>
      writeInside(join(folderOf(sessionId, generation), 'workspace'), path, text),
    read: async (sessionId, generation, path) => {
      const file = join(folderOf(sessionId, generation), 'workspace', path)
      return existsSync(file) ? readFileSync(file, 'utf8') : null
    },
    tokens: async (...box) => agentsIn(folderOf(...box)).map(({ token }) => token),
    hostPid: () => host.child.pid ?? -1,
    pids: (...box) => findProcesses({ marks: [`GANTRY_SANDBOX=${sandboxName(...box)}`] }),
    ports: (...box) => agentsIn(folderOf(...box)).map(({ port }) => port),
    loseNextAnswer: () => proxy.loseNextAnswer(),
    failNext: (kind) => proxy.failNext(kind),
    leftovers: async () => {
      const users = uids === undefined ? [] : range(uids[0], uids[1])
      const pids = findProcesses({ marks: [`GANTRY_MARK=${mark}`], uids: users })
      const kept = filesIn(snapshots)
      return [...readdirSync(root), ...kept, ...pids.map((pid) => `${pid} ${processCommand(pid)}`)]
    },
    killHost: async () => {
      host.child.kill('SIGKILL')
      await host.exited
    },
    startHost: async () => {
      host = await launch(options, lines)
    },
    close: async () => {
      host.child.kill('SIGTERM')
      await host.exited
      proxy.close()
      claim?.release()
      for (const path of [folder, dirname(root)]) rmSync(path, { recursive: true, force: true })
    },
  }
}

function optionsIn(
  folder: string,
  uids: Uids | undefined,
  overrides: Partial<HostOptions>,
): HostOptions {
  const agentFile = join(folder, 'agent.mjs')
  writeFileSync(agentFile, agent)
  // A user of its own cannot pass through the closed temporary folder.
  const root = join(siteFolders(folder)[0] ?? '', 'sandboxes')
  mkdirSync(root, { recursive: true, mode: 0o711 })
  return {
    secret,
    root,
    stateDir: join(folder, 'agents'),
    mark: `stk_${cryptoCharacters(12)}`,
    node: binary('node'),
    agentFile,
    opencode: binary('opencode'),
    path: [],
    ...(uids === undefined ? {} : { uids: [...uids] as [number, number] }),
    stopGraceMs: 2000,
    ...overrides,
  }
}

async function launch(options: HostOptions, lines: string[]) {
  const child = spawn(binary('node'), [join(repository, 'local', 'host', 'main.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'], HOME: '/', TMPDIR: tmpdir() },
  })
  const exited = once(child, 'exit')
  child.stdin.end(JSON.stringify(options))
  const output = createInterface(child.stdout).on('line', (line) => lines.push(line))
  const [ready] = (await once(output, 'line')) as [string]
  return { child, exited, url: (JSON.parse(ready) as { url: string }).url }
}

/** As the sandbox's own user would, whom the workspace belongs to. */
function writeInside(workspace: string, path: string, text: string): void {
  const { uid, gid } = statSync(workspace)
  const parts = path.split('/')
  for (const depth of parts.keys()) {
    const each = join(workspace, ...parts.slice(0, depth + 1))
    if (depth === parts.length - 1) writeFileSync(each, text)
    else mkdirSync(each, { recursive: true })
    chownSync(each, uid, gid)
  }
}

/** What each agent that lives has said. */
function agentsIn(sandbox: string): { token: string; port: number }[] {
  const folder = join(sandbox, 'agent')
  if (!existsSync(folder)) return []
  return readdirSync(folder).flatMap((name) => {
    const pid = Number(/^agent-(\d+)\.json$/.exec(name)?.[1])
    if (!(pid > 0) || processStartTime(pid) === undefined) return []
    return [JSON.parse(readFileSync(join(folder, name), 'utf8')) as { token: string; port: number }]
  })
}

function filesIn(folder: string): string[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name))
}

const range = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index)
