// The walls around OpenCode and everything that it starts. `chooseEnclosures` lists what this machine may allow, the
// strongest first; the launch itself is the proof, since a wall that cannot be built ends it before OpenCode runs. Then
// the supervisor takes the next one and the sandbox says so. Inside, the relay has a port of the inside's own loopback,
// and bash runs in a user namespace of its own, from which OpenCode's environment and memory cannot be read.

import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, type Server, type Socket } from 'node:net'
import { isAbsolute, join } from 'node:path'
import type { EnclosureReport } from '../../src/contract/enclosure.ts'
import type { Boot, Layout, Manifest, Upstream } from '../../src/contract/manifest.ts'
import type { Owner } from '../workspace/folder.ts'
import {
  connectInnerPort,
  innerPortsText,
  proxyPort,
  receiveInnerPorts,
  relayPort,
  socksPort,
} from './inner-ports.ts'
import { enterHeldLine, type Held, openlyHeld, waitForEnd } from './held.ts'
import { contractPlaceFiles } from './contract-place.ts'
import { makeControlGroup } from './control-group.ts'
import { groupLimits, enclosureLimitOptions } from './limits.ts'
import type { Mask } from './masks.ts'
import { findPlaces, rustupPlace } from './places.ts'
import { npmrcPath, upstreamNpmrc, upstreamPort, upstreamVariables } from './upstreams.ts'
import { scriptDropRights, enteredLine, setupScript, systemPath } from './script.ts'

export interface Command {
  file: string
  args: string[]
  cwd: string
  environment: Record<string, string>
  /** Files and folders of the workspace that it must not see. */
  masks: readonly Mask[]
}

export interface Launched {
  child: ChildProcess
  /** Resolves once the command runs where it should; rejects with the reason if that cannot be. */
  entered: Promise<void>
  /** To a port of the command's own loopback. */
  connect: (port: number) => Socket
}

export interface Enclosure {
  report: EnclosureReport
  /** Added to what the command's environment is outside. */
  environment: Record<string, string>
  launch: (command: Command) => Launched
  /** The same walls without OpenCode, relay and proxy, for what the agent runs over the sandbox's files. */
  hold: () => Held
}

export interface EnclosureInput {
  boot: Pick<Boot, 'stateDir' | 'opencode' | 'hidden' | 'limits'>
  manifest: Pick<Manifest, 'layout' | 'enclosure' | 'upstreams'>
  /** Who OpenCode is to be, where it differs from the agent. */
  owner: Owner | undefined
  /** As OpenCode's PATH has them. */
  path: readonly string[]
  marks: Record<string, string>
  /** The inside's connections to the relay, and to the only way out. */
  serve: Record<'relay' | 'proxy' | 'socks', (server: Server) => void> & {
    /** By the order of the manifest's. */
    upstreams?: (servers: Server[]) => void
  }
}

/** The strongest first; the last one never fails. */
export function chooseEnclosures(input: EnclosureInput): Enclosure[] {
  const { manifest, owner } = input
  const open = (why: string) => openEnclosure(owner, why)
  if (manifest.enclosure === 'off') return [open('It is switched off')]
  if (process.platform !== 'linux') return [open(`${process.platform} has no namespaces`)]
  const isRoot = process.getuid?.() === 0
  if (isRoot && owner === undefined)
    return [open('The agent is root and has nobody else to become')]
  return [namespaces(input, isRoot ? 'root' : 'user'), open('')]
}

/** Without walls: at most as another user. */
export function openEnclosure(owner: Owner | undefined, why: string): Enclosure {
  return {
    report: owner
      ? { level: 'uid', how: `user ${owner.uid}, no namespaces`, why }
      : { level: 'none', how: "the agent's own user, no namespaces", why },
    environment: {},
    launch: ({ file, args, cwd, environment }) => ({
      child: spawn(file, args, {
        cwd,
        env: environment,
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
        ...owner,
      }),
      entered: Promise.resolve(),
      connect: (port) => connect(port, '127.0.0.1'),
    }),
    hold: () => openlyHeld(owner),
  }
}

const walls = ['--mount', '--pid', '--net', '--ipc', '--uts', '--fork', '--kill-child']
const userWalls = ['--user', '--map-current-user', '--keep-caps']
const insideFolder = '/run/gantry'

type Inside = Pick<
  Parameters<typeof setupScript>[0],
  'before' | 'workspace' | 'masks' | 'command' | 'enterGroup'
>

function namespaces(input: EnclosureInput, kind: 'root' | 'user'): Enclosure {
  const { boot, owner, marks } = input
  const { layout, upstreams = [] } = input.manifest
  const ports = [relayPort, proxyPort, socksPort, ...upstreams.map((_, n) => upstreamPort(n))]
  const folder = join(boot.stateDir, 'enclosure')
  const hidden = [boot.stateDir, ...(boot.hidden ?? [])]
  const how =
    kind === 'root'
      ? `namespaces made by root, user ${owner?.uid}`
      : 'namespaces of a user namespace'
  const rustup = rustupPlace(input.path, hidden)
  const becomes = kind === 'root' ? owner : undefined
  const options = kind === 'root' ? walls : [...userWalls, ...walls]
  const outside = { PATH: process.env['PATH'] ?? '/usr/bin:/bin', ...marks }
  const scriptFor = (name: string, inside: Inside) =>
    setupScript({
      ...inside,
      places: findPlaces({
        layout,
        binaries: [boot.opencode, process.execPath],
        path: input.path,
        hidden,
      }),
      hidden,
      files: writeFiles(folder, { layout, upstreams }, owner),
      mountPoint: makeFolder(join(folder, name)),
      owner: becomes,
      limits: enclosureLimitOptions(boot.limits),
    })
  const report: EnclosureReport = { level: 'full', how, why: null }
  return {
    report,
    environment: {
      PROLIFERATE_GATEWAY_URL: `http://127.0.0.1:${relayPort}`,
      SHELL: `${insideFolder}/bash`,
      ...(rustup && { RUSTUP_HOME: rustup }),
      ...proxyVariables,
      ...upstreamVariables(upstreams),
    },
    launch: ({ file, args, cwd, environment, masks }) => {
      seedConfigFolders(environment)
      const group = makeControlGroup(groupLimits(boot.limits))
      report.how = `${how}; ${group?.how ?? 'memory watched'}`
      const before = [process.execPath, '-e', innerPortsText(ports)]
      const script = scriptFor('root', {
        before,
        workspace: cwd,
        masks,
        command: [file, ...args],
        enterGroup: group?.enter ?? [],
      })
      const child = spawn('unshare', [...options, '--', '/bin/sh', '-c', script], {
        cwd: '/',
        env: environment,
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
        detached: true,
      })
      child.once('close', () => group?.remove())
      const servers = receiveInnerPorts(child, ports).then((found) => {
        input.serve.relay(found.get(relayPort) as Server)
        input.serve.proxy(found.get(proxyPort) as Server)
        input.serve.socks(found.get(socksPort) as Server)
        input.serve.upstreams?.(upstreams.map((_, n) => found.get(upstreamPort(n)) as Server))
      })
      return {
        child,
        entered: saysEntered(child).then(() => servers),
        connect: (port) => connectInnerPort(child.pid ?? 0, kind === 'user', port, outside),
      }
    },
    hold: () => {
      const script = scriptFor('held', {
        before: [],
        workspace: '/',
        masks: [],
        command: waitForEnd,
        enterGroup: [],
      })
      const child = spawn('unshare', [...options, '--', '/bin/sh', '-c', script], {
        cwd: '/',
        env: outside,
        stdio: ['pipe', 'pipe', 'pipe'],
        detached: true,
      })
      child.stdin.on('error', () => undefined)
      const commandLine = enterHeldLine(child, kind, scriptDropRights(becomes))
      return { child, entered: saysEntered(child), commandLine }
    },
  }
}

const proxyUrl = `http://127.0.0.1:${proxyPort}`
const socksUrl = `socks5h://127.0.0.1:${socksPort}`
const notProxied = '127.0.0.1,localhost,::1'

/**
 * Curl reads the small ones, most others either; Node must be told to look at them at all. ALL_PROXY does not name SOCKS:
 * clients of Python that find it there and lack a package for it refuse to start.
 */
const proxyVariables = {
  ...{ SOCKS_PROXY: socksUrl, socks_proxy: socksUrl },
  ...{ HTTP_PROXY: proxyUrl, HTTPS_PROXY: proxyUrl, http_proxy: proxyUrl, https_proxy: proxyUrl },
  ...{ NO_PROXY: notProxied, no_proxy: notProxied, NODE_USE_ENV_PROXY: '1' },
}

/** The walls stand when it says so; if it ends before, its last words are the reason. */
function saysEntered(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = ''
    let words = ''
    child.stdout?.on('data', function listen(chunk: Buffer) {
      said = (said + chunk.toString('utf8')).slice(-4000)
      if (!said.includes(enteredLine)) return
      child.stdout?.off('data', listen)
      resolve()
    })
    child.stderr?.on(
      'data',
      (chunk: Buffer) => (words = (words + chunk.toString('utf8')).slice(-500)),
    )
    child.once('error', reject)
    child.once('close', (code) => reject(new Error(reasonIn(words) ?? `It ended with ${code}`)))
  })
}

/** The last line that says something; mount adds one that only says where to look for more. */
const reasonIn = (words: string): string | undefined =>
  words
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.includes('dmesg('))
    .at(-1)

/** What bash must not be told; the gate's plugin blanks them as well. */
const secrets = ['OPENCODE_SERVER_PASSWORD', 'SANDBOX_MCP_AUTH_TOKEN']

const shellText = `#!/bin/sh
unset ${secrets.join(' ')}
SHELL=/bin/bash
export SHELL
path=$PATH
PATH=${systemPath}
unshare=$(command -v unshare)
PATH=$path
exec "$unshare" --user --map-current-user -- /bin/bash "$@"
`

function makeFolder(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o755 })
  return path
}

/** By their place inside. Written before each start: it is the agent's own folder. */
function writeFiles(
  folder: string,
  { layout, upstreams }: { layout: Layout; upstreams: readonly Upstream[] },
  owner: Owner | undefined,
): Record<string, string> {
  makeFolder(folder)
  const write = (name: string, content: string, mode: number) => {
    const path = join(folder, name)
    writeFileSync(path, content)
    chmodSync(path, mode)
    return path
  }
  const uid = owner?.uid ?? process.getuid?.() ?? 0
  const gid = owner?.gid ?? process.getgid?.() ?? 0
  const npmrc = upstreamNpmrc(upstreams)
  return {
    ...(npmrc !== undefined && { [npmrcPath]: write('npmrc', npmrc, 0o644) }),
    ...contractPlaceFiles(layout, (name, content) => write(name, content, 0o644)),
    [`${insideFolder}/bash`]: write('bash', shellText, 0o755),
    '/etc/passwd': write(
      'passwd',
      withEntry('/etc/passwd', uid, `agent:x:${uid}:${gid}::${layout.home}:/bin/bash`),
      0o644,
    ),
    '/etc/group': write('group', withEntry('/etc/group', gid, `agent:x:${gid}:`, false), 0o644),
  }
}

/** OpenCode writes it into each of its config folders, and does not start where it finds none and cannot. */
function seedConfigFolders(environment: Record<string, string>): void {
  const { OPENCODE_CONFIG_DIR: own = '', XDG_CONFIG_HOME: home = '' } = environment
  for (const folder of [own, join(home, 'opencode')]) {
    const path = join(folder, '.gitignore')
    if (isAbsolute(folder) && existsSync(folder) && !existsSync(path))
      writeFileSync(path, 'node_modules\npackage.json\npackage-lock.json\n.gitignore\n')
  }
}

/** Programs such as ssh want to know who they are, and where home is. */
function withEntry(file: string, id: number, entry: string, replaces = true): string {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
  const isOwn = (line: string) => line.split(':')[2] === String(id)
  if (!replaces && lines.some(isOwn)) return `${lines.join('\n')}\n`
  return `${[...lines.filter((line) => !isOwn(line)), entry].join('\n')}\n`
}
