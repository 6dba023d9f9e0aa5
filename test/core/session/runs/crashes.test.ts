import { describe, expect, test } from 'vitest'
import { operations, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

/** What every agent of this world was told to execute, over all its links: ids, each of which it begins once. */
class Story {
  world = new RunWorld()
  runId = ''
  readonly #begun = new Set<string>()
  #seen: unknown[] = []

  async begin(): Promise<this> {
    await this.world.begin()
    this.runId = (await this.world.createRun()).id
    return this
  }

  /** The agent begins what it has not begun yet. */
  executed(): string[] {
    if (this.#seen !== this.world.sent) this.#seen = this.world.sent
    for (const { id } of this.world.executes()) this.#begun.add(id)
    return [...this.#begun]
  }

  /** The instance dies at its `n`th write from now on, and with it the transaction. Whether it came so far. */
  async dieAt(n: number, work: () => Promise<unknown>): Promise<boolean> {
    const { sql } = this.world
    const real = sql.run.bind(sql)
    let left = n
    sql.run = (...args) => {
      left -= 1
      if (left === 0) throw new Error('killed')
      real(...args)
    }
    await work().catch(() => undefined)
    await this.world.settle()
    sql.run = real
    this.executed()
    await this.recover()
    return left <= 0
  }

  async recover(): Promise<void> {
    this.world.restart()
    await this.world.meet()
    this.executed()
  }

  async attempts(operationId: string) {
    return (await this.world.operation(operationId)).attempts
  }
}

/** Dies once at every write there is, and once after the last. */
async function atEveryWrite(scene: (n: number) => Promise<boolean>): Promise<number> {
  let n = 1
  while (await scene(n)) n += 1
  return n
}

describe('[ATT21] an instance that dies at any write of a step', { timeout: 240_000 }, () => {
  test('[R1-38] reserve and send: the operation is there whole or not at all, and runs once', async () => {
    const writes = await atEveryWrite(async (n) => {
      const story = await new Story().begin()
      const { world, runId } = story
      const again = () => world.execute(runId, operations.allow, { idempotencyKey: 'k' })
      const died = await story.dieAt(n, again)
      const operation = await again()
      await story.recover()
      expect(story.executed()).toEqual(operation.attempts.map(({ id }) => id))
      expect(story.executed()).toHaveLength(1)
      expect((await world.verify(runId)).ok).toBe(true)
      return died
    })
    expect(writes).toBeGreaterThan(8)
  })

  test('[R1-41] resume: one execution, whoever comes again', async () => {
    await atEveryWrite(async (n) => {
      const story = await new Story().begin()
      const { world, runId } = story
      const asked = await world.execute(runId, operations.ask)
      await world.resolve(asked.approvalId ?? '')
      const resume = () => world.resume(asked.approvalId ?? '')
      const died = await story.dieAt(n, resume)
      const before = (await story.attempts(asked.id)).length
      if (before === 0) await resume()
      else await expect(resume()).rejects.toMatchObject({ code: 'wrong_state' })
      await story.recover()
      expect(story.executed()).toHaveLength(1)
      expect(await story.attempts(asked.id)).toHaveLength(1)
      return died
    })
  })

  test('[R1-40] finalise and append: the result is recorded once, and nothing runs again', async () => {
    const writes = await atEveryWrite(async (n) => {
      const story = await new Story().begin()
      const { world, runId } = story
      const operation = await world.execute(runId)
      const id = world.attemptId(operation)
      const died = await story.dieAt(n, () => world.result(id))
      await world.result(id)
      await story.recover()
      await world.result(id)
      expect(await story.attempts(operation.id)).toMatchObject([{ status: 'succeeded' }])
      const entries = await world.entries(runId, 'operation-execution')
      expect(entries).toMatchObject([{ status: 'succeeded', attemptId: id }])
      expect(story.executed()).toEqual([id])
      return died
    })
    expect(writes).toBeGreaterThan(5)
  })

  test('admission and its execution: one attempt more, executed once', async () => {
    await atEveryWrite(async (n) => {
      const story = await new Story().begin()
      const { world, runId } = story
      const operation = await world.execute(runId)
      await world.result(world.attemptId(operation), { status: 'failed' })
      story.executed()
      const retry = async () => {
        const { id } = await world.actor.api.operations.admitRetry(
          testCaller,
          operation.id,
          'after-failure',
        )
        await world.actor.api.operations.executeAttempt(testCaller, id)
      }
      const died = await story.dieAt(n, retry)
      const latest = (await story.attempts(operation.id)).at(-1)
      if (latest?.sequence === 1) await retry()
      else if (latest?.dispatched === false)
        await world.actor.api.operations.executeAttempt(testCaller, latest.id)
      const [, second, ...others] = await story.attempts(operation.id)
      expect([second?.dispatched, others]).toEqual([true, []])
      expect(story.executed()).toHaveLength(2)
      return died
    })
  })

  test('the deadline of a stuck one: suspect once', async () => {
    await atEveryWrite(async (n) => {
      const story = await new Story().begin()
      const { world, runId } = story
      const operation = await world.execute(runId)
      const id = world.attemptId(operation)
      const died = await story.dieAt(n, () => world.pass(120_000))
      await world.pass(150_000)
      const entries = await world.entries(runId, 'operation-execution')
      expect(entries).toMatchObject([{ status: 'suspect', attemptId: id }])
      expect(await world.run(runId)).toMatchObject({ status: 'needs-human', waitsFor: [id] })
      return died
    })
  })

  test('[R1-35] a resolution: once, and the parked call is answered', async () => {
    await atEveryWrite(async (n) => {
      const world = await new RunWorld().begin({ gate: { ask: ['bash'] } })
      const story = Object.assign(new Story(), { world })
      const turn = await world.prompt()
      const ask = await world.ask('bash')
      const resolve = () => world.resolve(world.approvalId(ask))
      const died = await story.dieAt(n, resolve)
      if ((await world.approval(world.approvalId(ask))).state === 'pending') await resolve()
      else await expect(resolve()).rejects.toMatchObject({ code: 'wrong_state' })
      await world.askAs(ask, 'bash')
      expect(world.answerTo(ask)).toBe('allow')
      expect(await world.entries(turn.runId ?? '', 'permission.approved')).toHaveLength(1)
      expect(await world.run(turn.runId ?? '')).toMatchObject({ status: 'running', waitsFor: [] })
      return died
    })
  })
})

test(
  '[ATT21] between any two steps an instance may go: nothing runs twice or is lost',
  { timeout: 240_000 },
  async () => {
    const steps = 6
    for (let mask = 0; mask < 2 ** steps; mask++) {
      const story = await new Story().begin()
      const { world, runId } = story
      let step = 0
      const maybeDie = async () => {
        if ((mask & (1 << step++)) !== 0) await story.recover()
      }
      const asked = await world.execute(runId, operations.ask)
      await maybeDie()
      await world.resolve(asked.approvalId ?? '')
      await maybeDie()
      const id = world.attemptId(await world.resume(asked.approvalId ?? ''))
      story.executed()
      await maybeDie()
      await world.result(id, { status: 'failed' })
      await maybeDie()
      await world.result(id, { status: 'failed' })
      const retry = await world.actor.api.operations.admitRetry(
        testCaller,
        asked.id,
        'after-failure',
      )
      await maybeDie()
      await world.actor.api.operations.executeAttempt(testCaller, retry.id)
      story.executed()
      await maybeDie()
      await world.result(retry.id)
      expect(story.executed()).toEqual([id, retry.id])
      expect(await story.attempts(asked.id)).toMatchObject([
        { status: 'failed' },
        { status: 'succeeded' },
      ])
      expect((await world.verify(runId)).ok).toBe(true)
    }
  },
)
