import { beforeEach, expect, test } from 'vitest'
import { maxArtifactTotalBytes } from '../../../../src/contract/tool.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'
import { storeArtifacts } from '../../../../src/core/session/artifacts/rows.ts'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'

const hour = 3_600_000
const day = 24 * hour
let world: RunWorld
beforeEach(async () => {
  world = await new RunWorld(gatewayTools).begin({ idleTimeoutSeconds: null })
})
const upload = () =>
  world.actor.api.agent.admitUpload({ ...testCaller, generation: 1 }, 'a', new Uint8Array(3))
const sweeps = () =>
  [...world.ledger.rows.values()]
    .filter(({ kind }) => kind === 'uploads.swept')
    .map(({ payload }) => JSON.parse(payload) as { before: number; keep: string[] })
const alarms = () =>
  Object.entries(world.deadlines()).filter(([name]) => name.startsWith('uploads'))

test('[SES14] the uploads of one hour are swept together, a day after its end', async () => {
  const hourEnd = (Math.floor(world.now / hour) + 1) * hour
  await upload()
  world.now += 1
  await upload()
  expect(alarms()).toEqual([[`uploads:${hourEnd}`, hourEnd + day]])
  world.now = hourEnd
  await upload()
  expect(alarms().map(([name]) => name)).toContain(`uploads:${hourEnd + hour}`)
  await world.pass(day - 1)
  expect(sweeps()).toEqual([])
  await world.pass(1)
  expect(sweeps()).toEqual([{ before: hourEnd, keep: [] }])
})

test('[SES14] a command that is open may name them: it is looked again an hour later', async () => {
  await upload()
  const [first] = alarms()
  const [name, at] = first ?? ['', 0]
  world.now = at - 1
  const operation = await world.execute((await world.createRun()).id)
  await world.pass(1)
  expect(sweeps()).toEqual([])
  expect(alarms()).toEqual([[name, at + hour]])
  await world.result(world.attemptId(operation))
  await world.pass(hour)
  expect(sweeps()).toHaveLength(1)
  expect(alarms()).toEqual([])
})

test('[SES14] what is named and not yet in libSQL is kept; what libSQL has needs no word', async () => {
  const store = (id: string, sha256: string) =>
    world.sql.transaction(() =>
      storeArtifacts(world.sql, world.now, 'op', [
        { id, path: id, contentType: 't', size: 1, sha256 },
      ]),
    )
  store('art_sent', 'a'.repeat(64))
  await upload()
  await world.pass(6000)
  // A refusal of something else says nothing about artifacts.
  world.ledger.refused = [{ seq: 1, kind: 'session', error: 'no', at: 1 }]
  await world.pass(day - hour)
  world.ledger.away = true
  for (const id of ['art_1', 'art_2']) store(id, 'b'.repeat(64))
  await world.pass(2 * hour)
  world.ledger.away = false
  await world.pass(hour)
  expect(sweeps().map(({ keep }) => keep)).toEqual([['b'.repeat(64)]])
  const artifacts = world.ledger.projected<{ id: string }>('artifact', ({ id }) => id)
  expect(artifacts.map(({ id }) => id)).toEqual(['art_sent', 'art_1', 'art_2'])
})

test('[SES19] what an artifact names already is let in again, whatever waits for a name', async () => {
  const full = maxArtifactTotalBytes
  world.sql.run('insert into uploads values (?, ?, ?)', 'f'.repeat(64), full, world.now)
  const admit = (sha256: string) =>
    world.actor.api.agent.admitUpload({ ...testCaller, generation: 1 }, sha256, new Uint8Array(3))
  await expect(admit('b'.repeat(64))).rejects.toMatchObject({ code: 'too_large' })
  world.sql.transaction(() =>
    storeArtifacts(world.sql, world.now, 'op', [
      { id: 'art_1', path: 'p', contentType: 't', size: 3, sha256: 'b'.repeat(64) },
    ]),
  )
  await admit('b'.repeat(64))
})
