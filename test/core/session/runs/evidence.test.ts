import { beforeEach, describe, expect, test } from 'vitest'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

const files = ['one.png', 'two.txt'].map((path, index) => ({
  path,
  size: 10 + index,
  sha256: String(index).repeat(64),
  contentType: 'application/octet-stream',
}))

let world: RunWorld
let runId: string
beforeEach(async () => {
  world = await new RunWorld(gatewayTools).begin()
  world.blobs = () => ({
    put: async () => {},
    putAll: async () => {},
    get: async () => null,
    hold: async () => new Map(files.map(({ sha256, size }) => [sha256, size])),
  })
  runId = (await world.prompt()).runId as string
})

/** The agent answers what it was asked to collect. */
async function collected(result: object[] = files): Promise<void> {
  await world.settle()
  const command = world.commands().findLast(({ kind }) => kind === 'collect')
  const data = { files: result }
  await world.receive({ t: 'result', commandId: command?.id ?? '', ok: true, data })
}
async function verify(id = 'c1', result: object[] = files) {
  const answer = world.call('verify', id)
  await collected(result)
  return answer
}
const evidence = async () => (await world.record(runId)).evidence
const artifactIds = async () =>
  (await world.actor.api.artifacts.list(testCaller, { limit: 99, after: null })).items.map(
    ({ id }) => id,
  )

describe('[RUN14] verify', () => {
  test('its start, each artifact and its end are entries of the run, and counted', async () => {
    await verify()
    const [one, two] = await artifactIds()
    const call = { toolCallId: 'c1', operationId: expect.stringMatching(/^op_/) }
    expect((await world.kinds(runId)).slice(-4)).toEqual([
      'verification.started',
      'artifact.written',
      'artifact.written',
      'verification.ended',
    ])
    const written = ({ path, size, sha256 }: (typeof files)[number], artifactId?: string) => ({
      ...call,
      ...{ artifactId, path, size, sha256 },
    })
    expect(await world.entries(runId, 'artifact.written')).toEqual([
      written(files[0] as (typeof files)[number], one),
      written(files[1] as (typeof files)[number], two),
    ])
    const ended = { ...call, passed: true, artifacts: 2, reason: null }
    expect(await evidence()).toMatchObject({
      verifications: { started: 1, passed: 1, failed: 0 },
      artifacts: 2,
      lastVerification: ended,
    })
    expect((await world.verify(runId)).ok).toBe(true)
  })

  test('asked again, joined or replayed after a restart, it is told once', async () => {
    const calls = [world.call('verify', 'c1'), world.call('verify', 'c1')]
    await collected()
    await Promise.all(calls)
    await world.call('verify', 'c1')
    world.restart()
    await world.call('verify', 'c1')
    expect(await evidence()).toMatchObject({
      verifications: { started: 1, passed: 1 },
      artifacts: 2,
    })
  })

  test('a process that dies before the answer is stored tells it with the answer of the next', async () => {
    void world.call('verify', 'c1').catch(() => {})
    await world.settle()
    expect(await evidence()).toMatchObject({ verifications: { started: 1, passed: 0 } })
    world.restart()
    await world.meet()
    await verify()
    expect(await evidence()).toMatchObject({
      verifications: { started: 1, passed: 1, failed: 0 },
      artifacts: 2,
    })
  })

  test('artifacts that were stored before the process died are told once, under their first id', async () => {
    const { blobs } = world
    // Dies after the artifacts' own commit, before the answer's.
    await verify('c1')
    const before = await artifactIds()
    world.sql.run(`update calls set state = 'pending', response = null, runner = 'gone'`)
    world.sql.run(`delete from run_events where kind in ('artifact.written', 'verification.ended')`)
    world.restart()
    world.blobs = blobs
    await world.meet()
    await world.call('verify', 'c1')
    const told = (await world.entries(runId, 'artifact.written')).map((data) => data['artifactId'])
    expect([told, await artifactIds()]).toEqual([before, before])
  })

  test('without files it has failed, and says why', async () => {
    await verify('c1', [])
    expect(await evidence()).toMatchObject({
      verifications: { started: 1, passed: 0, failed: 1 },
      artifacts: 0,
      lastVerification: { passed: false, reason: expect.stringContaining('No files in') },
    })
  })

  test('a call that nobody can settle any more has failed, once', async () => {
    void world.call('verify', 'c1').catch(() => {})
    await world.settle()
    world.restart()
    await world.actor.api.self.close(testCaller, 'done')
    world.restart()
    expect(await evidence()).toMatchObject({ verifications: { started: 1, passed: 0, failed: 1 } })
    expect(await world.entries(runId, 'verification.ended')).toMatchObject([
      { passed: false, reason: expect.stringContaining('closed') },
    ])
  })

  test('settled after its turn, it is in the run that it began in', async () => {
    const answer = world.call('verify', 'c1')
    await world.settle()
    const next = await world.createRun('another')
    const turn = (await world.actor.api.turns.list(testCaller, { limit: 1, after: null })).items[0]
    await world.endTurn({ id: turn?.id ?? '' })
    await collected()
    await answer
    expect(await world.entries(runId, 'verification.ended')).toMatchObject([{ passed: true }])
    expect(await world.entries(next.id, 'verification.ended')).toEqual([])
  })

  test('it is in the run of the running turn, though a newer run is open', async () => {
    const newer = await world.createRun('newer')
    await verify()
    expect(await world.entries(runId, 'verification.ended')).toHaveLength(1)
    expect(await world.entries(newer.id, 'verification.ended')).toEqual([])
    // What is shown for one run says nothing for another.
    expect((await world.record(newer.id)).evidence).toMatchObject({
      verifications: { started: 0, passed: 0, failed: 0 },
      artifacts: 0,
      lastVerification: null,
    })
  })

  test('without a turn it is in the open run, and without a run only in the log', async () => {
    const other = await new RunWorld(gatewayTools).begin()
    other.blobs = world.blobs
    world = other
    await verify('c0')
    runId = (await world.createRun()).id
    await verify('c1')
    expect(await evidence()).toMatchObject({ verifications: { passed: 1 }, artifacts: 2 })
    expect(await world.events('artifact.stored')).toHaveLength(4)
  })
})

describe('[RUN14] save_snapshot', () => {
  test('the snapshot is an entry of the run with its id, once', async () => {
    const save = () => world.call('save_snapshot', 's1', { message: 'green' })
    const { body } = await save()
    const { snapshotId } = (JSON.parse(body) as { data: { snapshotId: string } }).data
    await save()
    world.restart()
    await save()
    expect(await world.entries(runId, 'snapshot.stored')).toEqual([
      {
        ...{ snapshotId, target: 'session', bytes: expect.any(Number), message: 'green' },
        ...{ toolCallId: 's1', operationId: expect.stringContaining(snapshotId.slice(4)) },
      },
    ])
    expect(await evidence()).toMatchObject({ snapshots: 1, artifacts: 0 })
  })

  test('one that was refused is no evidence', async () => {
    world.sandboxes.snapshot = () => Promise.reject(new Error('full'))
    await world.call('save_snapshot', 's1').catch(() => {})
    expect(await evidence()).toMatchObject({ snapshots: 0 })
    expect(await world.entries(runId, 'error.recorded')).toMatchObject([
      { tool: 'save_snapshot', toolCallId: 's1', error: 'full' },
    ])
  })
})
