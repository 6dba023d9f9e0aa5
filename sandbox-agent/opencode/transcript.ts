// What OpenCode has stored of a turn: its messages and their parts, whether it still works, and how the turn ended. All
// of it is read by requests, so nothing depends on events that were missed. Turns call it.

import type { EventData } from '../../src/contract/events.ts'
import type { Memory } from '../memory/memory.ts'
import type { OpenCode } from './opencode.ts'

/** A message of OpenCode with its parts, as its list and its events give them. */
export interface Message {
  info: {
    id: string
    sessionID: string
    role: string
    parentID?: string
    time?: { created?: number; completed?: number }
    error?: { name?: string; data?: { message?: string } }
  }
  parts: Part[]
}
export interface Part {
  id: string
  sessionID: string
  messageID: string
  type: string
  text?: string
  /** Of step-start and step-finish: the tree of OpenCode's snapshot. */
  snapshot?: string
  synthetic?: boolean
  time?: { start?: number; end?: number }
  tool?: string
  callID?: string
  state?: {
    status: 'pending' | 'running' | 'completed' | 'error'
    input?: unknown
    output?: string
    title?: string
    error?: string
    metadata?: { truncated?: boolean; interrupted?: boolean }
    time?: { start?: number; end?: number }
  }
  reason?: string
  cost?: number
  tokens?: {
    input?: number
    output?: number
    reasoning?: number
    cache?: { read?: number; write?: number }
  }
}

/** The prompts of one turn in one session of OpenCode. */
export interface Prompts {
  sessionId: string
  messageIds: string[]
}

export interface PermissionRule {
  permission: string
  pattern: string
  action: 'allow' | 'ask' | 'deny'
}

/** The one session of OpenCode that all turns share. `permission`: rules of its own, the last that fits counts. */
export async function openTranscriptSession(
  opencode: OpenCode,
  memory: Memory,
  title: string,
  permission?: readonly PermissionRule[],
): Promise<string> {
  const known = memory.value.opencodeSessionId
  if (known !== null && (await opencode.request('GET', `/session/${known}`)) !== null) return known
  // With a title of its own, OpenCode does not ask the model for one.
  const created = (await opencode.request('POST', '/session', {
    title,
    ...(permission && { permission }),
  })) as { id: string }
  memory.save({ opencodeSessionId: created.id })
  return created.id
}

/** From the turn's first prompt on. */
export async function loadTranscript(
  opencode: OpenCode,
  { sessionId, messageIds }: Prompts,
): Promise<Message[]> {
  const all = await loadAll(opencode, sessionId)
  const start = all.findIndex(({ info }) => info.id === messageIds[0])
  return start === -1 ? [] : all.slice(start)
}

/**
 * Of every session but one: sub-agents, and whatever somebody has begun beside them. One may have been continued from an
 * earlier turn: only what is new counts.
 */
export async function loadOtherTranscripts(
  opencode: OpenCode,
  sessionId: string,
  since: number,
): Promise<Message[]> {
  const ids = new Set(await idsBelow(opencode, sessionId))
  for (const { id, time } of await sessionsAt(opencode, '/session'))
    if ((time?.updated ?? since) >= since) ids.add(id)
  ids.delete(sessionId)
  const found: Message[] = []
  for (const id of ids) {
    const all = await loadAll(opencode, id)
    found.push(...all.filter(({ info }) => (info.time?.created ?? 0) >= since))
  }
  return found
}

/** Listed by their parents: OpenCode's list of all may be cut short. */
async function idsBelow(opencode: OpenCode, sessionId: string): Promise<string[]> {
  const ids: string[] = []
  for (const { id } of await sessionsAt(opencode, `/session/${sessionId}/children`))
    ids.push(id, ...(await idsBelow(opencode, id)))
  return ids
}

async function sessionsAt(
  opencode: OpenCode,
  path: string,
): Promise<{ id: string; time?: { updated?: number } }[]> {
  const found = await opencode.request('GET', path)
  return Array.isArray(found) ? found : []
}

async function loadAll(opencode: OpenCode, sessionId: string): Promise<Message[]> {
  return ((await opencode.request('GET', `/session/${sessionId}/message`)) ?? []) as Message[]
}

export const knowsMessage = async (
  opencode: OpenCode,
  sessionId: string,
  messageId: string,
): Promise<boolean> =>
  (await opencode.request('GET', `/session/${sessionId}/message/${messageId}`)) !== null

export const hasRunningTool = (messages: Message[]): boolean =>
  messages.some(({ parts }) => parts.some(({ state }) => state?.status === 'running'))

/**
 * What OpenCode is doing. silent: it has not answered in time. finished: it is idle, and the last prompt has an answer
 * that is complete or failed.
 */
export type Activity = 'silent' | 'busy' | 'idle' | 'finished'

export async function lookAtTranscript(
  opencode: OpenCode,
  prompts: Prompts,
  withinMs: number,
): Promise<Activity> {
  const lastPrompt = prompts.messageIds.at(-1)
  try {
    const statuses = (await opencode.request(
      'GET',
      '/session/status',
      undefined,
      withinMs,
    )) as Record<string, { type: string }>
    const status = statuses[prompts.sessionId]?.type ?? 'idle'
    if (status !== 'idle') return 'busy'
    return isAnswered(await loadTranscript(opencode, prompts), lastPrompt) ? 'finished' : 'idle'
  } catch {
    return 'silent'
  }
}

function isAnswered(messages: Message[], lastPrompt: string | undefined): boolean {
  const last = lastAnswer(messages)
  if (last?.info.parentID !== lastPrompt) return false
  return last?.info.time?.completed !== undefined || last?.info.error !== undefined
}

const lastAnswer = (messages: Message[]) =>
  messages.findLast(({ info }) => info.role === 'assistant')

type End = Pick<EventData<'turn.ended'>, 'state' | 'reason' | 'text'>

export interface Ending {
  /** Why it was aborted, if it was. */
  aborted: string | null
  /** The sandbox ends, and nobody has asked for the turn's end. */
  stopped: boolean
  /** Why it was cut off, if it was: OpenCode has died under it, or had to be ended. */
  interrupted: string | null
  /** What OpenCode said outside of its messages. */
  error: string | null
}

export function transcriptEnd(ending: Ending, messages: Message[]): End {
  const text = lastText(messages)
  const failure = lastAnswer(messages)?.info.error
  const reason = failure ? transcriptError(failure) : ending.error
  if (ending.stopped) return { state: 'interrupted', reason: 'The sandbox was stopped', text }
  if (ending.aborted !== null) return { state: 'aborted', reason: ending.aborted, text }
  if (ending.interrupted !== null) return { state: 'interrupted', reason: ending.interrupted, text }
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

export function transcriptError(error: unknown): string {
  const { name, data } = (error ?? {}) as { name?: string; data?: { message?: string } }
  return (data?.message ?? name ?? 'OpenCode reported an error').slice(0, 4000)
}
