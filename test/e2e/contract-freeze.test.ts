import { isDeepStrictEqual } from 'node:util'
import { readdirSync } from 'node:fs'
import { afterAll, expect, test } from 'vitest'
import { random } from '../support/random.ts'
import { callsOf, dbOf, outboxEmpty, snapshotFolder, tool } from './contract-kit.ts'
import { Box, sleep, startTap, type Tap, until, useRealStack, write } from './support.ts'

let tap: Tap
const stack = useRealStack('workerd', async () => {
  tap = await startTap(() => stack().url)
  return { env: { GANTRY_PUBLIC_URL: tap.url } }
})
afterAll(() => tap?.close())

const rounds = 10
const together = 5
const cutsPerRound = 3
const count = rounds * together
const seed = Number(process.env['SEED'] ?? 1)

test(`[SNAP1] [SNAP9] [CALL3] [CALL16] link and callback are cut while snapshots are taken, ${count} of them: one each (seed ${seed})`, async () => {
  const box = await Box.open(stack())
  await box.run([write('small.txt', 'small\n'), tool('save_snapshot', { message: 'uncut' })])
  const [uncut] = await callsOf(box)
  const usualMs = (uncut?.settledAt as number) - (uncut?.startedAt as number)
  const messages = Array.from({ length: count }, (_, n) => `cut ${n}`)
  const steps = Array.from({ length: rounds }, (_, round) => ({
    calls: messages
      .slice(round * together, (round + 1) * together)
      .map((message) => ({ name: 'save_snapshot', args: { message } })),
  }))
  const turn = await box.prompt([...steps, { text: 'All are saved.' }])

  const next = random(seed)
  const hit = new Set<string>()
  for (let round = 1; round <= rounds; round += 1) {
    // They are taken one after the other: the first cut meets the first of them, the others later ones.
    await until(`round ${round} has begun`, 30_000, async () => {
      return (await callsOf(box)).length > (round - 1) * together + 1
    })
    for (let cut = 0; cut < cutsPerRound; cut += 1) {
      await sleep((cut === 0 ? 0.8 : 1.5) * next() * usualMs)
      const pending = (await callsOf(box)).filter(({ state }) => state === 'pending')
      tap.cut('/tools/save_snapshot', '/link')
      for (const { toolCallId } of pending) hit.add(toolCallId)
    }
    await until(`round ${round} has ended`, 60_000, async () => {
      return (
        (await callsOf(box)).filter(({ state }) => state === 'settled').length > round * together
      )
    })
  }
  expect(await box.ended(turn)).toMatchObject({ state: 'completed', text: 'All are saved.' })
  expect(hit.size).toBeGreaterThan(count * 0.8)

  const calls = await callsOf(box)
  expect(calls.map(({ args }) => (args as { message: string }).message).sort()).toEqual(
    ['uncut', ...messages].sort(),
  )
  for (const call of calls)
    expect(call).toMatchObject({ state: 'settled', response: { success: true } })
  const ids = calls.map(({ response }) => response?.data?.['snapshotId'] as string).sort()
  expect(new Set(ids).size).toBe(count + 1)
  // What OpenCode was told is what was recorded, each once.
  const told = (await box.eventsOf('tool.completed')).filter((one) => one.tool === 'save_snapshot')
  const results = calls.map(({ response }) => response?.result ?? '')
  expect(told.map(({ output }) => output).sort()).toEqual(results.sort())
  expect((await box.eventsOf('snapshot.stored')).map(({ id }) => id).sort()).toEqual(ids)
  const ended = (await box.eventsOf('call.ended')).map(({ toolCallId }) => toolCallId)
  expect(ended.sort()).toEqual(calls.map(({ toolCallId }) => toolCallId).sort())

  // Of all of them the two newest are kept.
  const kept = (await box.eventsOf('snapshot.stored'))
    .slice(-2)
    .map(({ id }) => id)
    .sort()
  await until('only the newest two are left', 60_000, async () => {
    const rows = await dbOf(stack()).all<{ id: string }>('select id from snapshots order by id')
    const listed = rows.map(({ id }) => id)
    const stored = readdirSync(snapshotFolder(stack())).sort()
    return isDeepStrictEqual(listed, kept) && isDeepStrictEqual(stored, kept)
  })
  expect(readdirSync(snapshotFolder(stack(), '.drafts'))).toEqual([])
  await outboxEmpty(box)
}, 240_000)
