import type { SessionEvent } from '../src/contract/events.ts'
import type { Stack } from '../local/stack/stack.ts'
import { readStream } from '../test/support/sse.ts'
import { api } from './api.ts'

export interface Seen {
  id: string
  sandbox: { state: string; reason: string | null; generation: number }
}

export const seen = async (stack: Stack, id: string) =>
  (await api(stack, 'GET', `/v1/sessions/${id}`)) as Seen

/**
 * Until the session says that its sandbox of this generation is ready. Told by its stream of events, just as the bare
 * OpenCode tells by a line: asking fifty times a second would take from OpenCode the processor that it boots with.
 */
export async function readyAs(stack: Stack, id: string, generation: number): Promise<void> {
  const isOver = ({ kind, data }: SessionEvent) =>
    kind === 'sandbox.changed' &&
    Number(data['generation']) >= generation &&
    (data['state'] === 'ready' || data['state'] === 'failed')
  const path = `/v1/sessions/${id}/events`
  await readStream(stack.url + path, stack.adminKey, (events) => events.some(isOver))
  const { sandbox } = await seen(stack, id)
  if (sandbox.state !== 'ready' || sandbox.generation !== generation)
    throw new Error(`The sandbox is ${sandbox.state}: ${sandbox.reason}`)
}
