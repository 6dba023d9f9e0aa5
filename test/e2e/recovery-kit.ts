import { existsSync, rmSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'vitest'
import { findProcesses, sandboxMark, signalProcess } from '../../local/processes/processes.ts'
import type { Stack } from '../../local/stack/stack.ts'
import type { Session } from '../../src/contract/session.ts'
import type { Turn } from '../../src/contract/turn.ts'
import { marked, requestsOf, tool } from './contract-kit.ts'
import { argvOf, bash, Box, stackProcesses, until, write } from './support.ts'

/** What waits has happened; its answer is not written. */
type Point = 'call.ran' | 'sandbox.created'

export interface Holder {
  url: string
  /** From now on whatever comes to this point waits, until all are let go. */
  hold(point?: Point): void
  held(point?: Point): number
  letGo(): void
  close(): void
}

/** Where the control plane asks at its crash points whether it may go on. */
export async function startHolder(): Promise<Holder> {
  const waiting = new Map<string, ServerResponse[]>()
  const server = createServer((request, response) => {
    request.resume()
    const held = waiting.get(request.url?.slice(1) ?? '')
    if (held) held.push(response)
    else response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold: (point = 'call.ran') => void waiting.set(point, []),
    held: (point = 'call.ran') => waiting.get(point)?.length ?? 0,
    letGo() {
      const all = [...waiting.values()].flat()
      waiting.clear()
      for (const response of all) response.end()
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** A session in the middle of something. */
export interface Scene {
  box: Box
  turn: Turn | null
}
export interface Stage {
  stack: Stack
  holder: Holder
}

/** Each is brought to its point, and stays there. */
export const phases = {
  /** The host works on it, and the session does not know. */
  creating: async ({ stack, holder }: Stage): Promise<Scene> => {
    holder.hold('sandbox.created')
    const box = await Box.create(stack)
    // The creation that is held may be another one's.
    await until('its creation is held', 60_000, () => {
      return existsSync(box.folder()) && holder.held('sandbox.created') > 0
    })
    expect((await box.view()).sandbox.state).toBe('creating')
    return { box, turn: null }
  },
  booting: async ({ stack }: Stage): Promise<Scene> => {
    const box = await Box.create(stack)
    await until('its agent has started', 60_000, () => findAgent(box))
    return { box, turn: null }
  },
  idle: async ({ stack }: Stage): Promise<Scene> => {
    const box = await openBox(stack)
    await box.run([write('kept.txt', 'kept\n'), { text: 'Written.' }])
    return { box, turn: null }
  },
  'mid-turn': async ({ stack }: Stage): Promise<Scene> => {
    const box = await openBox(stack)
    const mark = `thinks about ${box.id}`
    const turn = await box.prompt(marked(mark, [{ stallMs: 90_000, text: 'Too late.' }]))
    await until('the model thinks', 30_000, () => requestsOf(stack, mark).length > 0)
    return { box, turn }
  },
  'mid-tool': async ({ stack, holder }: Stage): Promise<Scene> => {
    const box = await openBox(stack)
    const calls = [...(bash('sleep 617').calls ?? []), ...(tool('verify').calls ?? [])]
    const turn = await box.prompt([
      write('.proliferate/.verification/proof.txt', 'proof\n'),
      { calls },
    ])
    await box.seen('artifact.stored')
    await until('the call is held', 15_000, () => holder.held() > 0)
    await until('bash runs', 15_000, () => box.processes().some((pid) => argvOf(pid)[1] === '617'))
    return { box, turn }
  },
  'mid-snapshot': async ({ stack }: Stage): Promise<Scene> => {
    const box = await openBox(stack)
    const turn = await box.prompt([write('kept.txt', 'kept\n'), tool('save_snapshot')])
    const taker = await until('it is being copied', 30_000, () => findTaker(stack))
    signalProcess(taker, 'SIGSTOP')
    return { box, turn }
  },
} satisfies Record<string, (stage: Stage) => Promise<Scene>>
export type Phase = keyof typeof phases

async function openBox(stack: Stack): Promise<Box> {
  const box = await Box.create(stack)
  await box.ready()
  return box
}

/** The host is asked for it and does not hear. */
export async function creatingBox(stack: Stack): Promise<Box> {
  signalProcess(stack.sandboxHost?.pid() ?? 0, 'SIGSTOP')
  const box = await Box.create(stack)
  await until('it is being created', 30_000, async () => {
    return (await box.view()).sandbox.state === 'creating'
  })
  return box
}

export const findAgent = (box: Box): number | undefined =>
  box.processes().find((pid) => argvOf(pid).some((word) => word.endsWith('/agent.mjs')))

/** The process that takes a snapshot. */
export const findTaker = (stack: Stack): number | undefined =>
  stackProcesses(stack.mark).find((pid) =>
    argvOf(pid).some((word) => word.endsWith('/snapshots/main.ts')),
  )

export const deaths = {
  agent: async (box: Box) =>
    signalProcess(await until('its agent runs', 60_000, () => findAgent(box)), 'SIGKILL'),
  OpenCode: async (box: Box) => signalProcess(await box.opencodePid(), 'SIGKILL'),
  // Again, as long as somebody writes into it.
  folder: async (box: Box) =>
    rmSync(box.folder(), { recursive: true, force: true, maxRetries: 10, retryDelay: 20 }),
}

/** The sandbox works, and is of this generation. */
export async function readyAs(box: Box, generation: number): Promise<void> {
  let seen: Session['sandbox'] | undefined
  const look = async () => {
    const { sandbox } = await box.view()
    seen = sandbox
    if (sandbox.state === 'failed') throw new Error(`It has failed: ${sandbox.reason}`)
    expect(sandbox.generation).toBeLessThanOrEqual(generation)
    box.generation = sandbox.generation
    return sandbox.state === 'ready' && sandbox.connected && box.generation === generation
  }
  await until(`generation ${generation} of ${box.id} is ready`, 90_000, look).catch(
    (error: unknown) => {
      throw new Error(`${(error as Error).message}: ${JSON.stringify(seen)}`, { cause: error })
    },
  )
}

/** What the model was told before the prompt, by Gantry, when it was prompted once more. */
export async function nextPrompt(stack: Stack, box: Box): Promise<string> {
  const mark = `again ${box.id} ${box.generation}`
  const turn = await box.run(marked(mark, [bash('true'), { text: 'I see.' }]))
  expect(turn).toMatchObject({ state: 'completed', text: 'I see.' })
  const [request] = requestsOf(stack, mark)
  const texts = (request?.messages ?? [])
    .filter(({ role }) => role === 'user')
    .map(({ content }) => JSON.stringify(content))
  return texts.filter((text) => text.includes('Note from Gantry')).join('\n')
}

/** Nothing runs or lies around of this generation. */
export async function expectGone(box: Box, generation: number): Promise<void> {
  const mark = `${sandboxMark}=${box.id}.${generation}`
  await until(
    `nothing runs of ${mark}`,
    30_000,
    () => findProcesses({ marks: [mark] }).length === 0,
  )
  await until('its folder is gone', 30_000, () => !existsSync(folderOf(box, generation)))
}

function folderOf({ stack, id }: Box, generation: number): string {
  return `${stack.sandboxSite?.root}/${id}.${generation}`
}
