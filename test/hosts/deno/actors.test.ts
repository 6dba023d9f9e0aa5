import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type ActorLimits, Actors } from '../../../src/hosts/deno/actors.ts'
import { WakeIndex } from '../../../src/hosts/deno/wake-index.ts'
import { Waker } from '../../../src/hosts/deno/waker.ts'

let folder: string
const ends: (() => void)[] = []
beforeEach(() => {
  vi.useFakeTimers()
  folder = mkdtempSync(join(tmpdir(), 'gantry-actors-'))
})
afterEach(() => {
  for (const end of ends.splice(0)) end()
  vi.useRealTimers()
  rmSync(folder, { recursive: true, force: true })
})

function actorsWith(limits: ActorLimits) {
  const closed: string[] = []
  const kind = { folder, create: () => ({}), onClose: (id: string) => void closed.push(id) }
  const actors = new Actors(kind, limits)
  ends.push(() => actors.close())
  return { actors, closed }
}

test('beyond the limit the actor that was not used for longest is closed', async () => {
  const { actors, closed } = actorsWith({ idleMs: 60_000, maxOpen: 3 })
  for (const id of ['a', 'b', 'c', 'a', 'd']) await actors.use(id, () => undefined)
  expect(closed).toEqual(['b'])
})

test('an actor is idle from the end of its work, however long that took', async () => {
  const { actors, closed } = actorsWith({ idleMs: 60_000, maxOpen: 3 })
  const work = actors.use('a', () => new Promise((resolve) => setTimeout(resolve, 100_000)))
  await vi.advanceTimersByTimeAsync(100_000)
  await work
  await vi.advanceTimersByTimeAsync(59_000)
  expect(closed).toEqual([])
  await vi.advanceTimersByTimeAsync(40_000)
  expect(closed).toEqual(['a'])
})

test('what cannot be opened at its deadline is tried again a minute later', async () => {
  const tries: number[] = []
  const failures: string[] = []
  const begunAt = Date.now()
  const index = new WakeIndex(folder)
  const waker = new Waker({
    index,
    now: () => Date.now(),
    open: async () => undefined,
    runDue: async () => {
      tries.push(Date.now() - begunAt)
      if (tries.length < 3) throw new Error('The disk is full')
    },
    onFailure: (id) => void failures.push(id),
  })
  ends.push(
    () => waker.close(),
    () => index.close(),
  )
  waker.arm('a', begunAt + 1000)
  await vi.advanceTimersByTimeAsync(600_000)
  expect(tries).toEqual([1000, 61_000, 121_000])
  expect(failures).toEqual(['a', 'a'])
})

test('what sleeps is woken in its time, however many are awake', () => {
  const index = new WakeIndex(folder)
  ends.push(() => index.close())
  for (let n = 0; n < 60; n++) index.awake(`awake_${n}`)
  for (const [id, at] of [['late', 300] as const, ['due', 200] as const, ['first', 100] as const]) {
    index.awake(id)
    index.asleep(id, at, false)
  }
  expect(index.due(200, 50)).toEqual(['first', 'due'])
  expect(index.next()).toBe(100)
})
