import { beforeEach, describe, expect, test } from 'vitest'
import { AppError } from '../../../../src/contract/error.ts'
import { day, orgId, TestDeployment } from '../../../support/organisation.ts'

const minute = 60_000
const configurationId = 'cfg_1'

/** A pool over sessions that only answer: what it makes and drops, and when it looks next. */
class Pool {
  readonly world: TestDeployment
  size = 1
  version = 'v1'
  project = 'default'
  readonly made: string[] = []
  readonly dropped: string[] = []
  /** What a session answers that is to be made, or dropped. */
  create: () => unknown = () => {}
  drop: () => boolean = () => true
  #minted = 0

  constructor(firewall = {}) {
    this.world = new TestDeployment(firewall)
    const { world } = this
    world.warm = {
      plan: async (_, id) => ({
        ...{ configurationId: id, size: this.size, version: this.version, project: this.project },
        ...{ provider: 'e2b' as const, create: {} },
      }),
      versionOf: async () => this.version,
      mintSessionId: async () => `ses_${(this.#minted += 1)}`,
    }
    world.warmOwner = (id) => ({
      self: {
        create: async (create) => {
          this.made.push(`${id} ${create.sessionId} ${create.warm}`)
          await this.create()
        },
      },
      warm: {
        drop: async ({ organisationId }, reason) => {
          this.dropped.push(`${id} ${organisationId} ${reason}`)
          return this.drop()
        },
      },
    })
  }

  get api() {
    return this.world.org.api.pools
  }
  get view() {
    return this.api.view(configurationId)
  }
  async look(size = this.size): Promise<void> {
    this.size = size
    await this.api.watch(configurationId)
    await this.world.pass(0)
  }
  ready = (...ids: string[]) => Promise.all(ids.map((id) => this.api.changed(id, 'ready', null)))
  claim = (creationId: string) =>
    this.api.claim({ configurationId, version: this.version, creationId, isRepeat: false })
  /** From now until it looks again. */
  get nextLookMs() {
    const [row] = this.world
      .sql()
      .all<{ at: number }>(`select at from deadlines where name = 'warm'`)
    return row && row.at - this.world.now
  }
  rows = () =>
    this.world
      .sql()
      .all<{ name: string }>(
        `select session_id || ' ' || state as name from warm_sessions order by session_id`,
      )
      .map(({ name }) => name)
}

let pool: Pool
beforeEach(() => {
  pool = new Pool()
})

describe('[WARM9] the order of a pool', () => {
  test('the oldest is given first, whichever was ready first, and the newest goes first', async () => {
    for (const size of [1, 2, 3]) {
      await pool.look(size)
      pool.world.now += minute
    }
    // As many ids are made as the pool may need.
    expect(pool.made).toEqual(['ses_1 ses_1 true', 'ses_2 ses_2 true', 'ses_4 ses_4 true'])
    await pool.ready('ses_4')
    pool.world.now += minute
    await pool.ready('ses_2', 'ses_1')
    await pool.look(2)
    expect(pool.dropped).toEqual([`ses_4 ${orgId} No longer wanted`])
    expect([await pool.claim('one'), await pool.claim('two')]).toEqual(['ses_1', 'ses_2'])
    expect(await pool.claim('three')).toBeNull()
  })

  test('what is not ready goes before what is, and what is not there yet before what starts', async () => {
    await pool.look(1)
    pool.world.now += minute
    await pool.look(2)
    await pool.ready('ses_2')
    await pool.look(1)
    expect(pool.rows()).toEqual(['ses_2 ready'])

    pool = new Pool()
    pool.create = () => {
      if (pool.made.length === 2) throw new Error('away')
    }
    await pool.look(2)
    expect(pool.rows()).toEqual(['ses_1 starting', 'ses_2 new'])
    await pool.look(1)
    expect(pool.rows()).toEqual(['ses_1 starting'])
  })

  test('one of an older version goes, also if it is ready', async () => {
    await pool.look(2)
    await pool.ready('ses_1', 'ses_2')
    pool.version = 'v2'
    await pool.look()
    expect(pool.rows()).toEqual(['ses_3 starting', 'ses_4 starting'])
    expect(pool.dropped).toHaveLength(2)
  })
})

describe('[WARM9] looking after it', () => {
  test('is done every five minutes, or when it may be tried again, and not for nothing', async () => {
    await pool.look()
    expect(pool.nextLookMs).toBe(5 * minute)
    await pool.ready('ses_1')
    await pool.claim('one')
    expect(pool.nextLookMs).toBe(0)
    await pool.look(0)
    // What was promised is fetched, or taken back.
    expect([await pool.view, pool.nextLookMs]).toEqual([
      { size: 0, ready: 0, starting: 0, reason: null, retryAt: null },
      5 * minute,
    ])
    await pool.api.changed('ses_1', 'claimed', null)
    await pool.world.pass(day + 6 * minute)
    expect([pool.rows(), pool.nextLookMs]).toEqual([[], undefined])
  })

  test('what cannot be read leaves it as it is, and is told', async () => {
    await pool.look()
    await pool.ready('ses_1')
    pool.world.warm.plan = async () => {
      throw new Error('libSQL is away')
    }
    await pool.world.pass(20 * minute)
    expect([pool.rows(), pool.nextLookMs]).toEqual([['ses_1 ready'], 5 * minute])
    expect(pool.world.logs).toContain(
      `warn Cannot look after a warm pool, will try again ${JSON.stringify({
        organisationId: orgId,
        configurationId,
        error: 'libSQL is away',
      })}`,
    )
  })
})

describe('[WARM8] what nobody fetches', () => {
  test('is dropped ten minutes after it was promised', async () => {
    await pool.look()
    await pool.ready('ses_1')
    await pool.claim('one')
    await pool.world.pass(10 * minute - 1)
    expect(pool.dropped).toEqual([])
    await pool.world.pass(5 * minute)
    expect(pool.dropped).toEqual([`ses_1 ${orgId} No longer wanted`])
    expect(pool.rows()).toEqual(['ses_2 starting'])
  })

  test('stays if it turns out to have been fetched, and is forgotten after a day', async () => {
    pool.drop = () => false
    await pool.look()
    await pool.ready('ses_1')
    await pool.claim('one')
    await pool.world.pass(15 * minute)
    await pool.world.pass(day - 6 * minute)
    expect(pool.rows()).toContain('ses_1 adopted')
    expect(pool.dropped.filter((each) => each.startsWith('ses_1 '))).toHaveLength(1)
    await pool.world.pass(15 * minute)
    expect(pool.rows()).not.toContain('ses_1 adopted')
  })

  test('is dropped again if that fails, unless it is not there', async () => {
    const errors = [new Error('away'), new AppError('not_found', 'No such session')]
    pool.drop = () => {
      throw errors.shift() ?? new Error('asked too often')
    }
    await pool.look()
    await pool.look(0)
    expect(pool.rows()).toEqual(['ses_1 dropped'])
    expect(pool.world.logs.join()).toContain('Cannot drop a warm session, will try again')
    await pool.world.pass(5 * minute)
    expect([pool.rows(), pool.dropped.length, pool.nextLookMs]).toEqual([[], 2, undefined])
  })

  test('a session that is not ready after an hour gives way to another', async () => {
    await pool.look()
    await pool.world.pass(59 * minute)
    expect(pool.rows()).toEqual(['ses_1 starting'])
    await pool.world.pass(2 * minute)
    expect(pool.dropped).toHaveLength(1)
    await pool.world.pass(5 * minute)
    expect(pool.rows()).toHaveLength(1)
    expect(pool.rows()).not.toContain('ses_1 starting')
  })
})

describe('[WARM11] what cannot be made', () => {
  const failing = (error: Error) => () => {
    throw error
  }

  test('is tried after 30 s, doubling to 30 min, one at a time', async () => {
    pool.create = failing(new AppError('unprocessable', 'No such model'))
    await pool.look(3)
    expect(pool.made).toHaveLength(3)
    // Three failures.
    for (const [times, seconds] of [120, 240, 480, 960, 1800, 1800].entries()) {
      const { retryAt, reason } = await pool.view
      expect([(retryAt ?? 0) - pool.world.now, reason]).toEqual([seconds * 1000, 'No such model'])
      expect([pool.rows(), pool.made.length]).toEqual([[], 3 + times])
      expect(pool.nextLookMs).toBe(Math.min(seconds * 1000, 5 * minute))
      await pool.world.pass(seconds * 1000)
    }
    // A person has changed something.
    pool.create = () => {}
    await pool.look()
    expect([pool.rows().length, (await pool.view).retryAt]).toEqual([3, null])
  })

  test('the first pause is 30 s, and one that works again brings one more, then all', async () => {
    pool.create = failing(new AppError('unprocessable', 'No such model'))
    await pool.look(1)
    expect((await pool.view).retryAt).toBe(pool.world.now + 30_000)
    pool.size = 3
    pool.create = () => {}
    await pool.world.pass(30_000)
    await pool.world.pass(5 * minute)
    expect(pool.rows()).toHaveLength(1)
    await pool.ready(pool.rows()[0]?.split(' ')[0] ?? '')
    await pool.world.pass(5 * minute)
    expect(pool.rows()).toHaveLength(3)
  })

  test('may be there all the same if the answer was lost: it is made again under its own id', async () => {
    pool.create = failing(new Error('reset'))
    await pool.look(1)
    pool.create = () => {}
    // Looked at in between, it waits for its time.
    await pool.api.claim({ configurationId, version: 'v0', creationId: 'x', isRepeat: false })
    await pool.world.pass(29_999)
    expect(pool.made).toHaveLength(1)
    await pool.world.pass(1)
    expect(pool.made).toEqual(['ses_1 ses_1 true', 'ses_1 ses_1 true'])
    expect(pool.rows()).toEqual(['ses_1 starting'])
  })

  test('one that ends before it was ready counts, one that was ready does not', async () => {
    await pool.look(2)
    await pool.ready('ses_1')
    await pool.api.changed('ses_1', 'ended', 'closed by hand')
    expect((await pool.view).reason).toBeNull()
    await pool.api.changed('ses_2', 'ended', null)
    expect(await pool.view).toMatchObject({
      reason: 'It never became ready',
      retryAt: pool.world.now + 30_000,
    })
  })
})

test('[WARM5] a creation that got none stays without one, and no other does', async () => {
  const { creations } = pool.world.org.api
  for (const id of ['one', 'two', 'three']) await creations.claim(`key of ${id}`, 'hash', id)
  expect(await pool.claim('one')).toBeNull()
  await pool.look(2)
  await pool.ready('ses_1', 'ses_2')
  expect(await pool.claim('one')).toBeNull()
  expect(await pool.claim('two')).toBe('ses_1')
  // It has taken it, and it is gone: there is no second one for it.
  await pool.api.giveBack({ creationId: 'two', sessionId: 'ses_1', isGone: true })
  expect([await pool.claim('two'), await pool.claim('three')]).toEqual([null, 'ses_2'])
})

describe('[WARM8] what is given back', () => {
  test('is for others again, or gone if it is gone, by the word of whoever was promised it', async () => {
    await pool.look(1)
    await pool.ready('ses_1')
    const end = { creationId: 'one', sessionId: 'ses_1' }
    await pool.claim('one')
    await pool.api.giveBack({ ...end, isGone: false })
    expect([pool.rows(), await pool.claim('two')]).toEqual([['ses_1 ready'], 'ses_1'])
    await pool.api.giveBack({ ...end, isGone: true })
    expect(pool.rows()).toEqual(['ses_1 claimed'])
    await pool.api.giveBack({ ...end, creationId: 'two', isGone: true })
    expect(pool.rows()).toEqual([])
    expect(pool.nextLookMs).toBe(0)
  })
})

describe('[WARM10] a pool and the places', () => {
  test('that is full asks for none, so it has no reason to tell', async () => {
    pool = new Pool({ concurrentSandboxes: 1 })
    await pool.look(1)
    await pool.world.reserve('ses_1')
    await pool.ready('ses_1')
    await pool.look()
    expect(await pool.view).toEqual({ size: 1, ready: 1, starting: 0, reason: null, retryAt: null })
  })

  test('of several pools the first by its id gives way', async () => {
    pool = new Pool({ concurrentSandboxes: 2 })
    for (const id of ['cfg_2', 'cfg_1']) {
      await pool.api.watch(id)
      await pool.world.pass(0)
    }
    for (const id of ['ses_1', 'ses_2']) await pool.world.reserve(id)
    expect(pool.rows()).toEqual(['ses_1 starting', 'ses_2 starting'])
    await pool.world.reserve('other')
    expect(pool.rows()).toEqual(['ses_1 starting', 'ses_2 dropped'])
  })

  test('counts those that will ask for a place and hold none yet', async () => {
    pool = new Pool({ concurrentSandboxes: 3 })
    await pool.look(5)
    expect(pool.made).toHaveLength(3)
    await pool.look()
    expect(pool.made).toHaveLength(3)
    // One of them gets its place: that is counted once.
    await pool.world.reserve('ses_1')
    await pool.look()
    expect(pool.made).toHaveLength(3)
    await pool.world.end('ses_1')
    await pool.api.changed('ses_1', 'ended', null)
    await pool.look()
    expect(pool.made).toHaveLength(4)
    // Those that have theirs are no longer among those that will ask.
    pool = new Pool({ concurrentSandboxes: 4 })
    await pool.look(2)
    for (const id of ['ses_1', 'ses_2']) await pool.world.reserve(id)
    await pool.look(4)
    expect(pool.made).toHaveLength(4)
  })

  test('takes no more than the hour and its project have left', async () => {
    pool = new Pool({ sandboxesPerHour: 4 })
    await pool.world.reserve('other')
    await pool.look(5)
    expect(pool.made).toHaveLength(3)

    pool = new Pool()
    pool.project = 'small'
    await pool.world.org.api.firewall.setLimits('small', { concurrentSandboxes: 1 }, 'key')
    await pool.look(5)
    expect(pool.made).toHaveLength(1)
    pool = new Pool()
    pool.project = 'small'
    await pool.world.org.api.firewall.setLimits('small', { sandboxesPerHour: 2 }, 'key')
    await pool.look(5)
    expect(pool.made).toHaveLength(2)
  })

  test('asks again when there may be a place: in half a minute, or in five if only a person can help', async () => {
    pool = new Pool({ concurrentSandboxes: 1 })
    const { firewall } = pool.world.org.api
    const wait = async () => {
      await pool.look()
      const { retryAt, reason } = await pool.view
      return [(retryAt ?? 0) - pool.world.now, reason]
    }
    await pool.world.reserve('other')
    expect(await wait()).toEqual([30_000, expect.stringContaining('concurrentSandboxes')])
    await firewall.setLimits(null, { concurrentSandboxes: 0 }, 'key')
    expect(await wait()).toEqual([5 * minute, expect.stringContaining('all 0')])
    await firewall.setKillSwitch({ on: true, reason: '' }, 'key')
    expect(await wait()).toEqual([30_000, expect.stringContaining('kill switch')])
    expect(pool.made).toEqual([])
  })

  test('gives up one that only waits for whoever asks, and waits two minutes itself', async () => {
    pool = new Pool({ concurrentSandboxes: 3 })
    await pool.look(2)
    for (const id of ['ses_1', 'ses_2', 'other']) await pool.world.reserve(id)
    await pool.ready('ses_1', 'ses_2')
    // A warm session takes none from another.
    expect((await pool.world.reserve('ses_1', { generation: 2 })).granted).toBe(false)
    expect(pool.rows()).toEqual(['ses_1 ready', 'ses_2 ready'])
    // One that is somebody's does.
    expect(await pool.claim('mine')).toBe('ses_1')
    await pool.world.reserve('ses_1', { generation: 2 })
    expect(await pool.view).toMatchObject({
      ready: 0,
      reason: 'Its place was needed for a session',
      retryAt: pool.world.now + 2 * minute,
    })
    expect(pool.nextLookMs).toBe(0)
    await pool.world.pass(0)
    expect(pool.dropped).toEqual([`ses_2 ${orgId} No longer wanted`])
  })

  test('gives up none where that would not help', async () => {
    const { firewall } = pool.world.org.api
    await firewall.setLimits('full', { concurrentSandboxes: 1 }, 'key')
    await pool.look(1)
    await pool.ready('ses_1')
    await pool.world.reserve('first', { project: 'full' })
    await pool.world.reserve('second', { project: 'full' })
    expect(pool.rows()).toEqual(['ses_1 ready'])
    // The place is refused for another reason than a limit of places.
    await firewall.setLimits(null, { sandboxesPerHour: 0 }, 'key')
    await pool.world.reserve('third')
    expect(pool.rows()).toEqual(['ses_1 ready'])

    pool = new Pool()
    pool.project = 'full'
    await pool.world.org.api.firewall.setLimits('full', { concurrentSandboxes: 1 }, 'key')
    await pool.look(1)
    await pool.ready('ses_1')
    await pool.world.reserve('ses_1', { project: 'full' })
    await pool.world.reserve('second', { project: 'full' })
    expect(pool.rows()).toEqual(['ses_1 dropped'])
  })
})
