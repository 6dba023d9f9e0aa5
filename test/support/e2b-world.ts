import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { buildScrub } from '../../build/scrub.ts'
import { createE2bSandboxes, type E2bOptions } from '../../src/adapters/sandboxes/e2b.ts'
import { remoteImage, remoteLayout } from '../../src/adapters/sandboxes/remote-layout.ts'
import { cryptoCharacters } from '../../src/adapters/web-crypto.ts'
import type { SandboxSpec } from '../../src/core/ports.ts'
import type { SandboxFault, SandboxWorld } from '../suites/sandbox-provider.ts'
import { type E2bDouble, startE2bDouble } from './e2b-double.ts'
import type { Box } from './e2b-double-box.ts'
import { imageFiles } from './sandbox-namespace.ts'
import { sandboxSpec } from './sandbox-spec.ts'

/** Takes the boot document as the agent does, says which token it was given, and calls its gateway again and again. */
const standIn = `import { writeFileSync } from 'node:fs'
let text = ''
for await (const chunk of process.stdin) text += chunk
const { token, gatewayUrl } = JSON.parse(text)
writeFileSync('${remoteImage.stateDir}/token', token)
process.stderr.write('stand-in ready\\n')
const headers = { authorization: 'Bearer ' + token }
setInterval(() => fetch(gatewayUrl, { headers }).catch(() => undefined), 100)
process.on('SIGTERM', () => process.exit(3))
`

export interface E2bWorld extends SandboxWorld {
  double: E2bDouble
  options: E2bOptions
  /** The boxes of a session's generation; with the copies that become snapshots, if they are asked for. */
  boxes(sessionId: string, generation: number, role?: string): Box[]
  run(box: Box, user: string, script: string, input?: string): Promise<string>
}

/** The adapter in front of the double, whose template has a stand-in for the agent. */
export async function startE2bWorld(agent: string = standIn, opencode?: string): Promise<E2bWorld> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-e2b-world-'))
  writeFileSync(join(folder, 'agent.mjs'), agent)
  await buildScrub(join(folder, 'scrub.mjs'))
  const shares = {
    ...imageFiles(join(folder, 'agent.mjs'), opencode),
    [remoteImage.scrub]: join(folder, 'scrub.mjs'),
  }
  const double = await startE2bDouble({ shares })
  const options: E2bOptions = {
    apiKey: double.apiKey,
    apiUrl: double.url,
    sandboxUrl: double.url,
    template: double.template,
    deploymentLabel: 'test',
  }
  const boxes = (sessionId: string, generation: number, role?: string) =>
    double
      .sandboxes()
      .filter(({ metadata }) => metadata['session'] === sessionId)
      .filter(({ metadata }) => metadata['generation'] === String(generation))
      .filter(({ metadata }) => role === undefined || metadata['role'] === role)
      .map(({ sandboxID }) => double.box(sandboxID))

  return {
    double,
    options,
    boxes,
    run,
    provider: createE2bSandboxes(options),
    away: createE2bSandboxes({ ...options, apiUrl: 'http://127.0.0.1:1' }),
    spec: (overrides) => sandboxSpec({ ...newSpec(), ...overrides }),
    kill: async (sessionId, generation) => {
      for (const { id } of boxes(sessionId, generation)) await double.kill(id)
    },
    write: async (sessionId, generation, path, content) => {
      const [box] = boxes(sessionId, generation, 'session')
      if (box === undefined) throw new Error('There is no such sandbox')
      const file = `${remoteLayout.workspace}/${path}`
      await run(box, 'user', `mkdir -p "$(dirname "${file}")" && cat > "${file}"`, content)
    },
    read: async (sessionId, generation, path) => {
      const [box] = boxes(sessionId, generation, 'session')
      if (box === undefined) return null
      const file = `${remoteLayout.workspace}/${path}`
      return run(box, 'user', `cat "${file}"`).catch(() => null)
    },
    tokens: async (sessionId, generation) => boxes(sessionId, generation).flatMap(tokensIn),
    loseNextAnswer: () => double.fault({ route: 'POST *', lost: true }),
    failNext: (kind) => double.fault({ route: '*', ...faults[kind] }),
    leftovers: async () => [
      ...double.sandboxes().map(({ sandboxID }) => sandboxID),
      ...double.templates().filter((name) => name !== double.template),
      ...readdirSync(double.folder).filter((name) => name !== 'base'),
    ],
    close: async () => {
      await double.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const faults: Record<SandboxFault, object> = {
  limited: { status: 429 },
  broken: { status: 500 },
  cut: { cut: true },
}

const newSpec = (): Partial<SandboxSpec> => ({
  sessionId: `ses_${cryptoCharacters(30)}`,
  token: `token-${cryptoCharacters(20)}`,
})

/** Of each agent that runs in the box and has written it down: its file is there a moment before its text. */
function tokensIn(box: Box): string[] {
  return box
    .pids()
    .filter((pid) => isAgent(pid))
    .flatMap(() => fileIn(box, `${remoteImage.stateDir}/token`) || [])
}

export function isAgent(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[1] === remoteImage.agent
  } catch {
    return false
  }
}

/** What the vendor can read in its logs, as it is and decoded. */
export const vendorReads = ({ vendorLog }: E2bDouble): string =>
  vendorLog
    .flatMap((line) => [line, ...(line.match(/[A-Za-z0-9+/]{12,}={0,2}/g) ?? []).map(decoded)])
    .join('\n')
const decoded = (text: string) => Buffer.from(text, 'base64').toString()

/** Something that the box itself wrote. */
export function fileIn(box: Box, path: string): string | null {
  try {
    return readFileSync(join(box.folder, 'upper', path), 'utf8')
  } catch {
    return null
  }
}

async function run(box: Box, user: string, script: string, input = ''): Promise<string> {
  const order = { cmd: 'sh', args: ['-c', script], tag: null, user }
  const { child } = box.spawn(order, { envs: {}, cwd: '/', stdin: true })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  child.stdin?.end(input)
  const [stdout, stderr, code] = await Promise.all([
    child.stdout === null ? '' : text(child.stdout),
    child.stderr === null ? '' : text(child.stderr),
    ended,
  ])
  if (code !== 0) throw new Error(`${script}: ${code}: ${stderr}`)
  return stdout
}
