import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildAgent } from '../../build/agent.ts'
import { findProcesses, sandboxMark, signalProcess } from '../../local/processes/processes.ts'
import type { Stack } from '../../local/stack/stack.ts'
import { startE2bWorld } from '../support/e2b-world.ts'
import { whyNoModal } from '../support/modal-double.ts'
import { startModalWorld } from '../support/modal-world.ts'
import { whyNoMachines } from '../support/sandbox-namespace.ts'
import { thingsOf } from '../../bench/fleet.ts'
import { snapshotFolder } from './contract-kit.ts'

/** Where sandboxes run, as a deployment knows it: by its environment. */
export interface Place {
  env: Record<string, string>
  /** The control plane is there: sandboxes must be able to reach it. */
  open(stack: Stack): Promise<void>
  /** The machine is gone from one moment to the next. */
  kill(sessionId: string, generation: number): Promise<void>
  /** What there is of sandboxes and snapshots. */
  left(stack: Stack): Promise<string[]>
  /** What a shell script prints in a remote sandbox, as root or as the sandbox's user. */
  inside(
    sessionId: string,
    generation: number,
    user: 'root' | 'user',
    script: string,
  ): Promise<string>
  /** What the vendor was asked and does not have. */
  refused(): string[]
  close(): Promise<void>
}

export type Provider = 'local' | 'e2b' | 'modal'

/** Why a provider cannot be tried on this machine; null: it can. */
export const whyNot: Record<Provider, string | null> = {
  local: null,
  e2b: whyNoMachines(),
  modal: whyNoModal(),
}

const portOf = ({ url }: Stack) => Number(new URL(url).port)

export const startPlace: Record<Provider, (agent: string, opencode?: string) => Promise<Place>> = {
  local: async () => ({
    env: {},
    open: async () => undefined,
    kill: async (sessionId, generation) => {
      const marks = [`${sandboxMark}=${sessionId}.${generation}`]
      for (const pid of findProcesses({ marks })) signalProcess(pid, 'SIGKILL')
    },
    left: async (stack) => [...thingsOf(stack).folders, ...snapshotsOf(stack)],
    inside: async () => {
      throw new Error('The sandbox is on this machine')
    },
    refused: () => [],
    close: async () => undefined,
  }),
  e2b: async (agent, opencode) => {
    const world = await startE2bWorld(agent, opencode)
    const { double, options } = world
    return {
      env: {
        GANTRY_E2B_API_KEY: options.apiKey,
        GANTRY_E2B_API_URL: double.url,
        GANTRY_E2B_SANDBOX_URL: double.url,
        GANTRY_E2B_TEMPLATE: double.template,
      },
      open: async (stack) => void double.ports.push(portOf(stack)),
      kill: (...machine) => world.kill(...machine),
      left: () => world.leftovers(),
      inside: async (sessionId, generation, user, script) => {
        const [box] = world.boxes(sessionId, generation, 'session')
        if (box === undefined) throw new Error('There is no such sandbox')
        return world.run(box, user, script)
      },
      refused: () => double.refused,
      close: () => world.close(),
    }
  },
  modal: async (agent, opencode) => {
    const world = await startModalWorld(agent, opencode)
    const { double } = world
    return {
      env: { GANTRY_MODAL_URL: double.url, GANTRY_MODAL_SECRET: double.secret },
      open: (stack) => double.openPort(portOf(stack)),
      kill: (...machine) => world.kill(...machine),
      left: () => world.leftovers(),
      inside: async (sessionId, generation, user, script) => {
        const [machine] = await world.machines(sessionId, generation)
        if (machine === undefined) throw new Error('There is no such sandbox')
        return world.run(machine, user, script)
      },
      refused: () => double.refused,
      close: () => world.close(),
    }
  },
}

function snapshotsOf(stack: Stack): string[] {
  try {
    return readdirSync(snapshotFolder(stack))
  } catch {
    return [] // none was ever taken
  }
}

/** The program itself, as an image has it. */
export async function agentProgram(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-agent-'))
  try {
    await buildAgent(join(folder, 'agent.mjs'))
    return readFileSync(join(folder, 'agent.mjs'), 'utf8')
  } finally {
    rmSync(folder, { recursive: true })
  }
}
