import { setTimeout as sleep } from 'node:timers/promises'
import type { Approval } from '../../src/contract/approval.ts'
import type { Session } from '../../src/contract/session.ts'
import type { Turn } from '../../src/contract/turn.ts'
import type { Client, Complain } from './client.ts'
import type { Random } from './random.ts'

export interface Life {
  sessionId: string
  turnIds: string[]
  end: 'open' | 'closed' | 'deleted'
}

/** Whole lives of sessions: created, prompted, replaced, closed or deleted, each step under a key and repeated until answered. */
export async function live(
  options: { client: Client; random: Random; complain: Complain; going: () => boolean },
  lives: Life[],
): Promise<void> {
  const { client, random, complain, going } = options
  while (going()) {
    const key = `create-${random.id(12)}`
    const body = { title: key, sandbox: 'local' }
    const [session, twin] = await Promise.all([create(), create()])
    if (!session || session.id !== twin?.id) {
      complain(`One creation key gave ${session?.id} and ${twin?.id}`)
      continue
    }
    const life: Life = { sessionId: session.id, turnIds: [], end: 'open' }
    lives.push(life)
    await takeTurn(life, random.chance(0.2))
    if (random.chance(0.3)) {
      await client.json('POST', `/v1/sessions/${life.sessionId}/replace`, { reason: 'chaos' })
      await takeTurn(life, false)
    }
    await end(life)

    function create(): Promise<Session | null> {
      return client.json<Session>('POST', '/v1/sessions', body, key)
    }
  }

  async function takeTurn(life: Life, abort: boolean): Promise<void> {
    const path = `/v1/sessions/${life.sessionId}/prompts`
    const key = `prompt-${random.id(12)}`
    const first = await client.json<Turn>('POST', path, { text: key }, key)
    const again = await client.json<Turn>('POST', path, { text: key }, key)
    if (!first || first.id !== again?.id)
      return complain(`One prompt key gave ${first?.id} and ${again?.id}`)
    life.turnIds.push(first.id)
    if (abort) await client.json('POST', `/v1/sessions/${life.sessionId}/abort`)
    const turn = await ended(life.sessionId, first.id)
    if (!abort && turn && turn.state !== 'completed')
      complain(`${turn.id} is ${turn.state}: ${turn.reason}`)
  }

  async function ended(sessionId: string, turnId: string): Promise<Turn | null> {
    for (const startedAt = Date.now(); Date.now() - startedAt < 60_000; await sleep(20)) {
      await approve(sessionId)
      const turn = await client.json<Turn>('GET', `/v1/turns/${turnId}?wait=1`)
      if (turn && turn.state !== 'queued' && turn.state !== 'running') return turn
    }
    complain(`${turnId} has not ended`)
    return null
  }

  async function approve(sessionId: string): Promise<void> {
    const path = `/v1/sessions/${sessionId}/approvals`
    const page = await client.json<{ items: Approval[] }>('GET', path)
    for (const { id, state } of page?.items ?? []) {
      if (state !== 'pending') continue
      const vote = { resolution: 'approved' }
      const { status, text } = await client.send('POST', `/v1/approvals/${id}/resolve`, vote)
      // 409: the answer to an earlier try was lost, or the turn was aborted meanwhile.
      if (status !== 200 && status !== 409) complain(`Cannot approve ${id}: ${status} ${text}`)
    }
  }

  async function end(life: Life): Promise<void> {
    const path = `/v1/sessions/${life.sessionId}`
    if (random.chance(0.6)) {
      // 404: the answer to an earlier try was lost.
      const { status, text } = await client.send('DELETE', path)
      if (status !== 204 && status !== 404) complain(`DELETE ${path}: ${status} ${text}`)
      life.end = 'deleted'
    } else if (random.chance(0.8)) {
      await client.json('POST', `${path}/close`, { reason: 'chaos' })
      life.end = 'closed'
    }
  }
}
