import { beforeEach, describe, expect, test } from 'vitest'
import type { WebhookCreated } from '../../../../src/contract/webhook.ts'
import { DeliveryId } from '../../../../src/contract/ids.ts'
import { ledgerStatements } from '../../../../src/core/ledger/ledger.ts'
import { postSignature } from '../../../../src/core/registry/webhooks/post.ts'
import { giveUpAfterMs, targetRetryMs } from '../../../../src/core/session/webhooks/targets.ts'
import { deleteWebhook } from '../../../../src/core/registry/webhooks/webhooks.ts'
import { saveEnvSecrets } from '../../../../src/core/session/record/secrets.ts'
import { useLibsql } from '../../../support/libsql.ts'
import { hasSignature, type Received, useReceiver } from '../../../support/webhook-receiver.ts'
import { WebhookWorld } from '../../../support/webhook-world.ts'

const libsql = useLibsql()
const receiver = useReceiver()
let world: WebhookWorld
let hook: WebhookCreated

beforeEach(async () => {
  world = await new WebhookWorld(libsql.db).start()
  hook = await world.hook(receiver.url('/a'))
})

const hour = 3_600_000
const ids = (path: string): string[] => receiver.at(path).map(({ json }) => String(json.id))

describe('[HOOK3] a delivery', () => {
  test('is signed over its time and bytes, and says what happened, to whom, under one id', async () => {
    const id = world.tell({ runId: 'run_1', data: { status: 'failed', reason: 'ümläut "x"' } })
    const at = world.now
    await world.pass(0)
    const [post] = receiver.received as [Received]
    expect(post.json).toEqual({
      id,
      event: 'run.ended',
      at,
      organisationId: world.organisationId,
      sessionId: world.sessionId,
      runId: 'run_1',
      data: { status: 'failed', reason: 'ümläut "x"' },
    })
    expect(post.headers['x-gantry-delivery']).toBe(id)
    expect(post.headers['content-type']).toBe('application/json')
    expect(DeliveryId.safeParse(id).success).toBe(true)
    expect(hasSignature(post, hook.secret, at)).toBe(true)
    expect(hasSignature({ ...post, text: `${post.text} ` }, hook.secret, at)).toBe(false)
    expect(hasSignature(post, `${hook.secret}x`, at)).toBe(false)
    expect(world.posts[0]?.timeoutMs).toBe(10_000)
  })

  test('is signed as anybody can compute it', () => {
    expect(postSignature('whsec_key', 1_700_000_000, '{"id":"1"}')).toBe(
      't=1700000000,v1=453eb4461c1281a0d1890d4515ae9e201a4ecd815d2ce38fca0cd5baa9619354',
    )
  })

  test('ids of one session are distinct and in order, also after the earlier ones are forgotten', async () => {
    const told = []
    for (let n = 0; n < 40; n++) {
      told.push(world.tell())
      if (n % 7 === 0) await world.pass(0)
    }
    await world.pass(0)
    expect(ids('/a')).toEqual(told)
    expect([...new Set(told)].toSorted()).toEqual(told)
    expect(world.sql.all('select n, body from deliveries')).toEqual([{ n: 40, body: '' }])
    expect(world.targets()).toEqual([])
  })

  test('of more than 64 KiB says only that there was more', async () => {
    world.tell({ data: { text: 'x'.repeat(70_000) } })
    await world.pass(0)
    expect(receiver.received[0]?.json.data).toEqual({ truncated: true })
  })
})

describe('[HOOK8] who is told', () => {
  test('only webhooks of the organisation that want the event and the project', async () => {
    const other = await new WebhookWorld(libsql.db).start()
    await other.hook(receiver.url('/stranger'))
    await world.hook(receiver.url('/lost'), { events: ['sandbox.lost'] })
    await world.hook(receiver.url('/same-project'), { project: world.project })
    await world.hook(receiver.url('/other-project'), { project: 'bank' })
    world.tell()
    await world.pass(0)
    expect(receiver.received.map(({ path }) => path).toSorted()).toEqual(['/a', '/same-project'])
    world.tell({ event: 'approval.requested' })
    await world.pass(0)
    expect(receiver.received).toHaveLength(2)
    expect(world.sql.all('select name from deadlines')).toEqual([])
  })

  test('a webhook that is deleted meanwhile gets nothing more', async () => {
    receiver.behave('/a', 500)
    world.tell()
    await world.pass(0)
    await deleteWebhook(libsql.db(), {
      organisationId: world.organisationId,
      webhookId: hook.id,
    })
    await world.pass(hour)
    expect(receiver.received).toHaveLength(1)
    expect(await world.ledger()).toMatchObject([
      { state: 'dropped', attempts: 1, last_status: 500, error: 'The webhook was deleted' },
    ])
    // Nothing is left to wake the session for it.
    expect(world.sql.all('select name from deadlines')).toEqual([])
  })
})

describe('[HOOK4] what fails is tried again', () => {
  test('under the same id with the same bytes, later and later, until it is taken', async () => {
    world.patienceMs = 2000
    receiver.behave('/a', 500, 404, 'close', { redirectTo: receiver.url('/b') }, 'hang', 200)
    const id = world.tell()
    const at: number[] = []
    while (receiver.received.length < 6) {
      await world.pass(1000)
      while (at.length < receiver.received.length) at.push(world.now)
    }
    await world.pass(giveUpAfterMs)
    expect(ids('/a')).toEqual(Array.from({ length: 6 }, () => id))
    expect(new Set(receiver.received.map(({ text }) => text)).size).toBe(1)
    expect(receiver.at('/b')).toEqual([])
    for (const [index, post] of receiver.received.entries())
      expect(hasSignature(post, hook.secret, at[index] ?? 0)).toBe(true)
    const signatures = receiver.received.map(({ headers }) => headers['x-gantry-signature'])
    expect(new Set(signatures).size).toBe(6)
    expect(await world.ledger()).toEqual([
      {
        webhook_id: hook.id,
        id,
        event: 'run.ended',
        run_id: null,
        state: 'delivered',
        attempts: 6,
        last_status: 200,
        error: null,
      },
    ])
  })

  test('the wait doubles from ten seconds to an hour, half of it by chance', () => {
    const waits = (fraction: number) =>
      [1, 2, 3, 9, 10, 40].map((attempts) => targetRetryMs(attempts, fraction) / 1000)
    expect(waits(0)).toEqual([5, 10, 20, 1280, 1800, 1800])
    expect(waits(1)).toEqual([10, 20, 40, 2560, 3600, 3600])
  })

  test('what a failure was is kept without address or secret', async () => {
    const cases = [
      [{ redirectTo: receiver.url('/b') }, 302, 'Redirects are not followed'],
      [503, 503, 'Answered 503'],
      ['close', null, 'Cannot connect'],
      ['hang', null, 'No answer within 1000 ms'],
    ] as const
    for (const [behaviour, status, error] of cases) {
      receiver.behave('/a', behaviour)
      world = await new WebhookWorld(libsql.db).start()
      world.patienceMs = 1000
      await world.hook(receiver.url('/a'))
      world.tell()
      await world.pass(0)
      expect(await world.ledger()).toMatchObject([
        { state: 'pending', attempts: 1, last_status: status, error },
      ])
    }
  })

  test('[HOOK5] for a day, with one last try at its end; then the session says so, and goes on', async () => {
    receiver.behave('/a', 500)
    const id = world.tell()
    const toldAt = world.now
    await world.pass(giveUpAfterMs - 1)
    expect(world.targets()).toMatchObject([{ state: 'pending', next_at: toldAt + giveUpAfterMs }])
    expect(world.events()).toEqual([])
    await world.pass(1)
    const attempts = receiver.received.length
    expect(attempts).toBeGreaterThan(20)
    expect(attempts).toBeLessThan(70)
    const failure = { webhookId: hook.id, deliveryId: id, event: 'run.ended', attempts }
    expect(world.events()).toMatchObject([
      { kind: 'webhook.failed', data: { ...failure, error: 'Answered 500' } },
    ])
    expect(world.logs.filter((line) => line.startsWith('warn Gave up'))).toHaveLength(1)
    expect(await world.ledger()).toMatchObject([{ state: 'failed', attempts, last_status: 500 }])
    expect(world.sql.all('select name from deadlines')).toEqual([])
    receiver.behave('/a', 200)
    const next = world.tell()
    await world.pass(0)
    expect(ids('/a').at(-1)).toBe(next)
  })
})

describe('[HOOK6] one dead endpoint', () => {
  test('does not delay another', async () => {
    await world.hook(receiver.url('/dead'))
    receiver.behave('/dead', 'hang')
    world.patienceMs = 3000
    world.tell()
    const rounds = [world.fire()]
    // The dead one is waited for; what is told meanwhile reaches the other.
    await poll(() => receiver.received.length === 2 || (rounds.push(world.fire()), false))
    const second = world.tell()
    await poll(() => ids('/a').includes(second) || (rounds.push(world.fire()), false))
    expect(receiver.at('/dead')).toHaveLength(1)
    await Promise.all(rounds)
  })

  test('costs one wait per round, and loses nothing of what waits behind', async () => {
    receiver.behave('/a', 'hang')
    // Long enough for a busy machine to deliver it.
    world.patienceMs = 2500
    const told = [world.tell(), world.tell(), world.tell()]
    await world.fire()
    for (const round of [1, 2, 3]) {
      await world.fire()
      expect(receiver.received).toHaveLength(round)
    }
    expect(ids('/a').toSorted()).toEqual(told)
    receiver.received.length = 0
    receiver.behave('/a', 204)
    world.patienceMs = 10_000
    await world.pass(10_000)
    expect(ids('/a').toSorted()).toEqual(told)
    expect(world.targets()).toEqual([])
  })

  test('that has come back gets what is new at once, and what waits in its time', async () => {
    receiver.behave('/a', 500, 500, 500, 204)
    const waiting = world.tell()
    while (receiver.received.length < 3) await world.pass(1000)
    const [before] = world.targets()
    const fresh = world.tell()
    await world.pass(0)
    expect(ids('/a')).toEqual([waiting, waiting, waiting, fresh])
    expect(world.targets()).toEqual([before])
    await world.pass(hour)
    expect(ids('/a').at(-1)).toBe(waiting)
  })

  test('a delivery that is refused does not hold up the next', async () => {
    receiver.behave('/a', 400, 204)
    const [refused, taken] = [world.tell(), world.tell()]
    await world.pass(0)
    expect(ids('/a')).toEqual([refused, taken])
    expect(world.targets()).toMatchObject([{ attempts: 1, state: 'pending' }])
  })
})

describe('[HOOK9] while libSQL is away', () => {
  test('deliveries wait, before it is known who wants them and after', async () => {
    world.dbAway = true
    const first = world.tell()
    await world.pass(60_000)
    expect(receiver.received).toEqual([])
    world.dbAway = false
    await world.pass(10_000)
    expect(ids('/a')).toEqual([first])

    receiver.behave('/a', 500, 204)
    const second = world.tell()
    await world.pass(0)
    world.dbAway = true
    world.now += giveUpAfterMs + hour
    await world.pass(60_000)
    expect(ids('/a')).toEqual([first, second])
    world.dbAway = false
    await world.pass(10_000)
    expect(ids('/a')).toEqual([first, second, second])
  })
})

describe('[HOOK4] a crash', () => {
  test('between any two steps loses nothing: what may have gone out goes out again under its id', async () => {
    let crashes = 0
    for (let commit = 1; ; commit++) {
      world = await new WebhookWorld(libsql.db).start()
      const [a, b] = [`/a${commit}`, `/b${commit}`]
      await world.hook(receiver.url(a))
      await world.hook(receiver.url(b))
      receiver.behave(a, 503, 204)
      const told = [world.tell(), world.tell()]
      world.restart()
      world.dieAtCommit = commit
      await world.pass(30_000)
      const { died } = world
      world.restart()
      await world.pass(60_000)
      for (const path of [a, b]) {
        expect([...new Set(ids(path))].toSorted()).toEqual(told)
        const bodies = new Set(receiver.at(path).map(({ text }) => text))
        expect(bodies.size).toBe(told.length)
        // Two deliveries, one refusal, and at most one repetition after the crash.
        expect(ids(path).length).toBeLessThanOrEqual(told.length + 2)
      }
      expect(world.targets()).toEqual([])
      expect((await world.ledger()).map(({ state }) => state)).toEqual(
        Array.from({ length: 4 }, () => 'delivered'),
      )
      if (!died) break
      crashes += 1
    }
    expect(crashes).toBeGreaterThan(8)
  })

  test('the alarm may come twice', async () => {
    world.tell()
    await Promise.all([world.fire(), world.fire()])
    await Promise.all([world.fire(), world.fire()])
    expect(receiver.received).toHaveLength(1)
  })
})

describe('[HOOK10] secrets', () => {
  test('a value that became known after it was written does not leave', async () => {
    const sealed = await world.crypto.seal('hunter2-hunter2')
    saveEnvSecrets(world.sql, world.now, [{ key: 'PASSWORD', sealed, kind: 'secret' }])
    world.tell({ data: { reason: 'it was hunter2-hunter2' } })
    await world.pass(0)
    const [post] = receiver.received as [Received]
    expect(post.json.data).toEqual({ reason: 'it was [secret:PASSWORD]' })
    expect(hasSignature(post, hook.secret, world.now)).toBe(true)
  })

  test('neither secret nor address is in a log line, an event or the ledger', async () => {
    await world.hook(receiver.url('/canary-path?token=canary'))
    receiver.behave('/canary-path?token=canary', 'close', 500)
    receiver.behave('/a', 'close')
    world.tell()
    await world.pass(giveUpAfterMs)
    const seen = JSON.stringify([world.logs, world.events(), await world.ledger()])
    expect(seen).toContain('Gave up')
    for (const text of ['canary', 'whsec_', '127.0.0.1']) expect(seen).not.toContain(text)
  })

  test('a secret whose key is gone is an error of the delivery', async () => {
    await libsql.db().batch([
      {
        sql: 'update webhooks set sealed_secret = ? where id = ?',
        values: ['v1.gone.AAAA', hook.id],
      },
    ])
    world.tell()
    await world.pass(0)
    expect(await world.ledger()).toMatchObject([
      { state: 'pending', error: 'Cannot open the secret of this webhook' },
    ])
  })
})

test('[HOOK12] deliveries in libSQL go with their session', async () => {
  world.tell()
  await world.pass(0)
  expect(await world.ledger()).toHaveLength(1)
  const { sessionId, organisationId } = world
  const erased = { seq: 100, kind: 'session.erased', payload: '{}', createdAt: 1 }
  await libsql.db().batch(ledgerStatements({ sessionId, organisationId }, [erased]))
  const left = await libsql
    .db()
    .all('select 1 from webhook_deliveries where organisation_id = ?', organisationId)
  expect(left).toEqual([])
})

async function poll(isDone: () => boolean): Promise<void> {
  for (let left = 2000; !isDone(); left--) {
    if (left === 0) throw new Error('It did not happen')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
