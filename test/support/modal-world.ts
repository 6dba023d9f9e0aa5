import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { buildScrub } from '../../build/scrub.ts'
import { createModalSandboxes, type ModalOptions } from '../../src/adapters/sandboxes/modal.ts'
import { remoteImage, remoteLayout } from '../../src/adapters/sandboxes/remote-layout.ts'
import { cryptoCharacters } from '../../src/adapters/web-crypto.ts'
import type { SandboxSpec } from '../../src/core/ports.ts'
import type { SandboxFault, SandboxWorld } from '../suites/sandbox-provider.ts'
import { organisation } from '../suites/sandbox-provider/tools.ts'
import { type ModalDouble, type ModalMachine, startModalDouble } from './modal-double.ts'
import { imageFiles, namespaceScript, processesOf } from './sandbox-namespace.ts'
import { sandboxSpec } from './sandbox-spec.ts'

/** Takes the boot document as the agent does, and says which token it was given. */
const standIn = `import { writeFileSync } from 'node:fs'
let text = ''
for await (const chunk of process.stdin) text += chunk
const { token } = JSON.parse(text)
writeFileSync('${remoteImage.stateDir}/token', token)
process.stderr.write('stand-in ready\\n')
setInterval(() => undefined, 1000)
process.on('SIGTERM', () => process.exit(3))
`

export interface ModalWorld extends SandboxWorld {
  double: ModalDouble
  options: ModalOptions
  spec(overrides?: Partial<SandboxSpec>): SandboxSpec
  machines(sessionId: string, generation: number, role?: string): Promise<ModalMachine[]>
  /** A shell script in the machine, as root or as the sandbox's user. */
  run(machine: ModalMachine, user: 'root' | 'user', script: string, input?: string): Promise<string>
}

/** The adapter in front of the double, whose image has a stand-in for the agent. */
export async function startModalWorld(
  agent: string = standIn,
  opencode?: string,
): Promise<ModalWorld> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-modal-world-'))
  writeFileSync(join(folder, 'agent.mjs'), agent)
  await buildScrub(join(folder, 'scrub.mjs'))
  const shares = {
    ...imageFiles(join(folder, 'agent.mjs'), opencode),
    [remoteImage.scrub]: join(folder, 'scrub.mjs'),
  }
  const double = await startModalDouble({ shares })
  const options = { url: double.url, secret: double.secret, deploymentLabel: 'test' }
  const machines = async (sessionId: string, generation: number, role = 'session') =>
    (await double.state()).machines.filter(
      ({ tags }) =>
        tags['session'] === sessionId &&
        tags['generation'] === String(generation) &&
        tags['role'] === role,
    )

  return {
    double,
    options,
    machines,
    run,
    provider: createModalSandboxes(options),
    away: createModalSandboxes({ ...options, url: 'http://127.0.0.1:1' }),
    spec: (overrides) => sandboxSpec({ ...newSpec(), ...overrides }),
    kill: async (sessionId, generation) => {
      for (const { id } of await machines(sessionId, generation)) await double.kill(id)
    },
    write: async (sessionId, generation, path, content) => {
      const [machine] = await machines(sessionId, generation)
      if (machine === undefined) throw new Error('There is no such sandbox')
      const file = `${remoteLayout.workspace}/${path}`
      await run(machine, 'user', `mkdir -p "$(dirname "${file}")" && cat > "${file}"`, content)
    },
    read: async (sessionId, generation, path) => {
      const [machine] = await machines(sessionId, generation)
      if (machine === undefined) return null
      return run(machine, 'user', `cat "${remoteLayout.workspace}/${path}"`).catch(() => null)
    },
    tokens: async (sessionId, generation) =>
      (await machines(sessionId, generation)).flatMap(tokensIn),
    loseNextAnswer: () => double.fault({ lost: true }),
    failNext: (kind) => double.fault(faults[kind]),
    leftovers: async () => {
      const { machines: running, images } = await double.state()
      const files = readdirSync(double.folder).filter((name) => !atRest.has(name))
      const made = images.filter((id) => id !== baseImage)
      return [...running.map(({ id }) => id), ...made, ...files]
    },
    close: async () => {
      await double.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** What the double has before anybody asks it. */
const atRest = new Set(['base', 'ports'])
const baseImage = 'im-base'

const faults: Record<SandboxFault, object> = {
  limited: { status: 429 },
  broken: { status: 500 },
  cut: { cut: true },
}

const newSpec = (): Partial<SandboxSpec> => ({
  sessionId: `ses_${cryptoCharacters(30)}`,
  organisationId: organisation,
  token: `token-${cryptoCharacters(20)}`,
})

/** Of each agent that runs in the machine and has written it down: its file is there a moment before its text. */
function tokensIn({ pid, folder }: ModalMachine): string[] {
  return processesOf(pid)
    .filter(isAgent)
    .flatMap(() => fileIn(folder, `${remoteImage.stateDir}/token`) || [])
}

function isAgent(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[1] === remoteImage.agent
  } catch {
    return false
  }
}

/** Something that the machine itself wrote. */
function fileIn(folder: string, path: string): string | null {
  try {
    return readFileSync(join(folder, 'upper', path), 'utf8')
  } catch {
    return null
  }
}

const { uid, gid, user: name } = remoteImage
const asUser = [
  ...['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'],
  ...['env', `HOME=${remoteLayout.home}`, `USER=${name}`],
]

async function run(
  machine: ModalMachine,
  user: 'root' | 'user',
  script: string,
  input = '',
): Promise<string> {
  const line = [...(user === 'user' ? asUser : []), 'sh', '-c', script]
  const child = spawn('sh', [namespaceScript, 'inside', String(machine.pid), ...line])
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  const code = await ended
  if (code !== 0) throw new Error(`${script}: ${code}: ${stderr}`)
  return stdout
}
