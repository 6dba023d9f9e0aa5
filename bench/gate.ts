import type { Stack } from '../local/stack/stack.ts'
import { startStack } from '../local/stack/stack.ts'
import { canonicalJson } from '../src/contract/canonical.ts'
import { linkPing, linkPong } from '../src/contract/link.ts'
import { hashText } from '../src/core/hash.ts'
import { startFakeSandboxHost } from '../test/support/sandbox-host.ts'
import { api } from './api.ts'
import { ratioRows, sandboxToken } from './calls.ts'
import { openSocket } from './events.ts'
import { type Timing, timingOf } from './load.ts'
import type { Row } from './table.ts'

const warmUp = 300
const questions = 2000

/** An allow from question to answer over the link, against a message to a bare object that stores it and answers. */
export async function measureGate(stateDir: string, base: Stack): Promise<Row[]> {
  return withGate(stateDir, async (stack) => {
    const first = await measure(await openBare(base))
    const ours = await measure(await openTurn(stack))
    const again = await measure(await openBare(base))
    return ratioRows('gate, an allow over the link', { ours, base: first, baseAgain: again }, 1.8)
  })
}

/** With a stack whose sessions have sandboxes for which the bench itself speaks. */
export async function withGate<T>(stateDir: string, work: (stack: Stack) => Promise<T>) {
  const sandboxes = await startFakeSandboxHost()
  const stack = await startStack({
    stateDir,
    host: 'workerd',
    sandboxes: false,
    model: 'none',
    env: { ...sandboxes.env, RATE_LIMIT_PER_MINUTE: '100000000' },
  })
  try {
    return await work(stack)
  } finally {
    await stack.erase()
    sandboxes.close()
  }
}

/** Asks the next question and waits for its answer. */
export interface Asker {
  ask(): Promise<void>
  close(): void
}

export async function openBare(base: Stack): Promise<Asker> {
  const socket = await openSocket(`${base.url}/link/gate-${Math.random()}`, {})
  return askerOf(socket, (n) => ({ items: [{ seq: n, ...question(n) }] }))
}

/** A session with a turn that runs, and the link of its sandbox. */
export async function openTurn(stack: Stack): Promise<Asker> {
  const { id } = (await api(stack, 'POST', '/v1/sessions', { sandbox: 'local' })) as { id: string }
  await api(stack, 'POST', `/v1/sessions/${id}/prompts`, { text: 'go' })
  const socket = await openSocket(`${stack.url}/sandbox/${id}/link`, {
    authorization: `Bearer ${await sandboxToken(stack, id)}`,
  })
  const greeted = next(socket)
  socket.send(
    JSON.stringify({ t: 'hello', protocols: [1], agent: 'bench', boot: 'bench', ready: true }),
  )
  await greeted
  await new Promise((resolve) => setTimeout(resolve, 500))
  // An agent that is silent for a minute is taken for lost, also on a machine that is slow now.
  const pinging = setInterval(() => socket.send(linkPing), 20_000)
  socket.addEventListener('close', () => clearInterval(pinging))
  return askerOf(socket, question)
}

function askerOf(socket: WebSocket, make: (n: number) => object): Asker {
  let asked = 0
  return {
    ask() {
      asked += 1
      const answered = next(socket)
      socket.send(JSON.stringify(make(asked)))
      return answered
    },
    close: () => socket.close(),
  }
}

const input = { command: 'npm test -- --run src/app.test.ts', description: 'Run the tests' }
const inputHash = hashText(canonicalJson(input))
const question = (n: number) => ({
  t: 'ask',
  askId: `ask_${String(n).padStart(20, '0')}`,
  tool: 'bash',
  callId: `call_${n}`,
  opencodeSessionId: 'ses_bench',
  agent: 'build',
  input,
  shortened: false,
  realPaths: [],
  inputHash,
})

/** One after the other: a tool waits for its answer. */
async function measure(asker: Asker): Promise<Timing> {
  const times: number[] = []
  for (let n = 1; n <= warmUp + questions; n++) {
    const started = performance.now()
    await asker.ask()
    if (n > warmUp) times.push(performance.now() - started)
  }
  asker.close()
  return timingOf(times)
}

function next(socket: WebSocket): Promise<void> {
  return new Promise((resolve) => {
    const hear = ({ data }: MessageEvent) => {
      if (data === linkPong) return
      const { t, decision } = JSON.parse(String(data)) as { t: string; decision?: string }
      if (t === 'command') return
      if (decision === 'deny') throw new Error('The gate denied what it was to allow')
      socket.removeEventListener('message', hear)
      resolve()
    }
    socket.addEventListener('message', hear)
  })
}
