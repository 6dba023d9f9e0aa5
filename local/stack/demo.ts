// The demo: one session over the public API, told line by line. It throws an error that says what went wrong, and never
// says that something worked which did not. start.ts runs it.

import type { EventData, EventKind, SessionEvent } from '../../src/contract/events.ts'
import type { Session, SessionDiff } from '../../src/contract/session.ts'
import type { ToolCall } from '../../src/contract/tool.ts'
import type { Turn } from '../../src/contract/turn.ts'
import { sleep } from '../processes/processes.ts'
import { script } from '../model/scripted-model.ts'
import { showAbility } from './ability-demo.ts'

interface DemoOptions {
  url: string
  key: string
  /** Whether the prompt must carry a script. */
  scripted: boolean
  print: (line: string) => void
  deadlineMs: number
}

const project = 'demo'
const task =
  'Write a short file HELLO.md that greets the reader. Then put its word count into ' +
  '.proliferate/.verification/word-count.txt as evidence, and call the verify tool once.'

const hello = `# Hello from Gantry

A real OpenCode wrote this file in its own sandbox. Before each tool it asked the control plane,
and its call of \`verify\` came back to the control plane, which executed it exactly once.
`

const demoScript = script([
  {
    text: 'I write the file first.',
    calls: [{ name: 'write', args: { filePath: 'HELLO.md', content: hello } }],
  },
  {
    calls: [
      {
        name: 'bash',
        args: {
          command:
            'mkdir -p .proliferate/.verification && wc -w HELLO.md | tee .proliferate/.verification/word-count.txt',
          description: 'Count the words as evidence',
        },
      },
    ],
  },
  { calls: [{ name: 'verify', args: {} }] },
  { text: 'HELLO.md is written, and its word count is stored as evidence.' },
])

export async function runDemo(options: DemoOptions): Promise<void> {
  const api = createDemoApi(options.url, options.key)
  const startedAt = Date.now()
  let stored = 0
  const say = (what: string, text: string, ms?: number) => options.print(demoRow(what, text, ms))
  const session = await api<Session>('POST', '/v1/sessions', { title: 'Demo', project })
  const path = `/v1/sessions/${session.id}`
  say('session', session.id, Date.now() - startedAt)
  try {
    const feed = follow()
    await feed(isReady)
    say('sandbox', 'OpenCode is ready, the gate has proven itself', Date.now() - startedAt)

    const promptedAt = Date.now()
    const text = options.scripted
      ? `${task}\n\n(No model key is set: the scripted model answers, and follows these steps.)\n${demoScript}`
      : task
    const turn = await api<Turn>('POST', `${path}/prompts`, { text })
    say('prompt', task)
    await feed((event) => {
      tell(event)
      return event.kind === 'turn.ended' && event.data['turnId'] === turn.id
    })
    const ended = await api<Turn>('GET', `/v1/turns/${turn.id}?wait=10`)
    if (ended.state !== 'completed')
      throw new Error(`The turn ended as "${ended.state}": ${ended.reason ?? ''}`)
    say('answer', ended.text ?? '')
    const diff = await api<SessionDiff>('GET', `${path}/diff`)
    showFiles(diff)
    const { items: calls } = await api<{ items: ToolCall[] }>('GET', `${path}/calls`)
    for (const call of calls) {
      say(
        'ledger',
        `${call.tool} ${call.state}, executions: ${call.attempts}, artifacts stored: ${stored}`,
      )
    }
    checkResult(diff, calls)
    say('turn', 'completed', Date.now() - promptedAt)
    const { scripted } = options
    await showAbility({ api, sessionId: session.id, project, scripted, say, mustGoOn })
  } finally {
    await api('POST', `${path}/close`).catch(() => undefined)
  }

  /** Reads events in order, across calls, until one is the one waited for. */
  function follow() {
    let after = 0
    const queue: SessionEvent[] = []
    return async (isLast: (event: SessionEvent) => boolean): Promise<void> => {
      for (;;) {
        mustGoOn()
        for (let event = queue.shift(); event !== undefined; event = queue.shift())
          if (isLast(event)) return
        const page = await api<{ items: SessionEvent[] }>(
          'GET',
          `${path}/events?after=${after}&limit=200`,
        )
        queue.push(...page.items)
        after = page.items.at(-1)?.seq ?? after
        if (page.items.length === 0) await sleep(100)
      }
    }
  }

  function mustGoOn(): void {
    if (Date.now() - startedAt < options.deadlineMs) return
    throw new Error(
      `The demo session ${session.id} is not done after ${options.deadlineMs / 1000} s`,
    )
  }

  function tell(event: SessionEvent): void {
    if (isKind(event, 'tool.completed')) {
      say('tool', `${event.data.tool} ${brief(event.data.input)}`, event.data.durationMs)
    } else if (isKind(event, 'tool.failed')) {
      say('tool', `${event.data.tool} failed: ${event.data.error}`, event.data.durationMs)
    } else if (isKind(event, 'artifact.stored')) {
      stored += 1
      say('artifact', `${event.data.path} (${event.data.size} bytes)`)
    } else if (isKind(event, 'call.ended')) {
      const { tool, success, state, durationMs } = event.data
      say('gateway', `${tool} came back: ${success ? 'success' : state}`, durationMs)
    }
  }

  function showFiles(diff: SessionDiff): void {
    for (const file of diff.files) {
      say('file', `${file.path} (${file.status}, +${file.additions})`)
      for (const line of addedLines(diff.patch, file.path).slice(0, 8))
        options.print(`             | ${line}`)
    }
  }
}

/** The demo's result is its exit code, so it must not say that something worked which did not. */
function checkResult(diff: SessionDiff, calls: ToolCall[]): void {
  if (!diff.files.some(({ path }) => path === 'HELLO.md'))
    throw new Error('HELLO.md was not written')
  const verified = calls.filter((call) => call.tool === 'verify' && call.response?.success === true)
  if (verified.length === 0) throw new Error('The verify tool did not come back with success')
  const again = verified.find((call) => call.attempts !== 1)
  if (again !== undefined) throw new Error(`verify was executed ${again.attempts} times`)
}

function addedLines(patch: string, path: string): string[] {
  const section =
    patch.split(/^(?=diff --git )/m).find((text) => text.includes(`\n+++ b/${path}\n`)) ?? ''
  const body = section.slice(section.indexOf('\n@@'))
  return body.split('\n').flatMap((line) => (line.startsWith('+') ? [line.slice(1)] : []))
}

function isKind<K extends EventKind>(
  event: SessionEvent,
  kind: K,
): event is SessionEvent & { data: EventData<K> } {
  return event.kind === kind
}

function isReady(event: SessionEvent): boolean {
  if (!isKind(event, 'sandbox.changed')) return false
  const { state, reason } = event.data
  if (state === 'failed' || state === 'lost') throw new Error(`The sandbox is ${state}: ${reason}`)
  return state === 'ready'
}

function brief(input: unknown): string {
  const { filePath, command } = (input ?? {}) as { filePath?: unknown; command?: unknown }
  const text = typeof filePath === 'string' ? filePath : typeof command === 'string' ? command : ''
  return text.length > 60 ? `${text.slice(0, 59)}…` : text
}

export function demoRow(what: string, text: string, ms?: number): string {
  const time =
    ms === undefined ? '' : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
  return `  ${what.padEnd(10)} ${time === '' ? text : `${text.padEnd(70)} ${time.padStart(8)}`}`
}

/** A JSON request to the public API; a refusal becomes an error with its message. */
export function createDemoApi(url: string, key: string) {
  return async <T>(method: string, path: string, body?: object): Promise<T> => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    })
    const text = await response.text()
    if (!response.ok)
      throw new Error(
        `${method} ${path} was refused with ${response.status}: ${text.slice(0, 500)}`,
      )
    return (text === '' ? undefined : JSON.parse(text)) as T
  }
}
