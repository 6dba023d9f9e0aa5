import type { EventData } from '../src/contract/events.ts'
import type { Message } from './events.ts'
import type { Memory } from './memory.ts'
import type { OpenCode } from './opencode.ts'

/** The prompts of one turn in one session of OpenCode. */
export interface Prompts {
  sessionId: string
  messageIds: string[]
}

/** The one session of OpenCode that all turns share. */
export async function openSession(
  opencode: OpenCode,
  memory: Memory,
  title: string,
): Promise<string> {
  const known = memory.value.opencodeSessionId
  if (known !== null && (await opencode.request('GET', `/session/${known}`)) !== null) return known
  // With a title of its own, OpenCode does not ask the model for one.
  const created = (await opencode.request('POST', '/session', { title })) as { id: string }
  memory.save({ opencodeSessionId: created.id })
  return created.id
}

/** From the turn's first prompt on. */
export async function loadMessages(
  opencode: OpenCode,
  { sessionId, messageIds }: Prompts,
): Promise<Message[]> {
  const all = await loadAll(opencode, sessionId)
  const start = all.findIndex(({ info }) => info.id === messageIds[0])
  return start === -1 ? [] : all.slice(start)
}

/** Of all sub-agents below a session. One may have been continued from an earlier turn: only what is new counts. */
export async function loadChildMessages(
  opencode: OpenCode,
  sessionId: string,
  since: number,
): Promise<Message[]> {
  const children = ((await opencode.request('GET', `/session/${sessionId}/children`)) ?? []) as {
    id: string
  }[]
  const found: Message[] = []
  for (const { id } of children) {
    const all = await loadAll(opencode, id)
    found.push(...all.filter(({ info }) => (info.time?.created ?? 0) >= since))
    found.push(...(await loadChildMessages(opencode, id, since)))
  }
  return found
}

async function loadAll(opencode: OpenCode, sessionId: string): Promise<Message[]> {
  return ((await opencode.request('GET', `/session/${sessionId}/message`)) ?? []) as Message[]
}

/** finished: idle, and the last prompt has an answer that is complete or failed. */
export async function lookAt(
  opencode: OpenCode,
  prompts: Prompts,
): Promise<'busy' | 'idle' | 'finished'> {
  const statuses = (await opencode.request('GET', '/session/status')) as Record<
    string,
    { type: string }
  >
  const status = statuses[prompts.sessionId]?.type ?? 'idle'
  if (status !== 'idle') return 'busy'
  const last = lastAnswer(await loadMessages(opencode, prompts))
  if (last?.info.parentID !== prompts.messageIds.at(-1)) return 'idle'
  return last?.info.time?.completed !== undefined || last?.info.error !== undefined
    ? 'finished'
    : 'idle'
}

const lastAnswer = (messages: Message[]) =>
  messages.findLast(({ info }) => info.role === 'assistant')

type End = Pick<EventData<'turn.ended'>, 'state' | 'reason' | 'text'>

export interface Ending {
  /** Why it was aborted, if it was. */
  aborted: string | null
  /** The sandbox ends, and nobody has asked for the turn's end. */
  stopped: boolean
  /** OpenCode has died under it. */
  interrupted: boolean
  /** What OpenCode said outside of its messages. */
  error: string | null
}

export function endOf(ending: Ending, messages: Message[]): End {
  const text = lastText(messages)
  const failure = lastAnswer(messages)?.info.error
  const reason = failure ? errorText(failure) : ending.error
  if (ending.stopped) return { state: 'interrupted', reason: 'The sandbox was stopped', text }
  if (ending.aborted !== null) return { state: 'aborted', reason: ending.aborted, text }
  if (ending.interrupted)
    return { state: 'interrupted', reason: 'OpenCode died during the turn', text }
  if (failure?.name === 'MessageAbortedError')
    return { state: 'aborted', reason: 'Aborted in OpenCode', text }
  return { state: reason === null ? 'completed' : 'failed', reason, text }
}

function lastText(messages: Message[]): string | null {
  const answers = messages.filter(({ info }) => info.role === 'assistant')
  const texts = answers.flatMap(({ parts }) =>
    parts.filter((part) => part.type === 'text' && part.text),
  )
  return texts.at(-1)?.text ?? null
}

export function errorText(error: unknown): string {
  const { name, data } = (error ?? {}) as { name?: string; data?: { message?: string } }
  return (data?.message ?? name ?? 'OpenCode reported an error').slice(0, 4000)
}
