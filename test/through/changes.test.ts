import { describe, expect, test } from 'vitest'
import { evidenceEventRank } from '../../src/core/session/evidence/events.ts'
import type { ChangeEvent } from '../../src/contract/change.ts'
import { ChangeScene, edit, sha256, side, type Step } from '../support/changes-kit.ts'
import { useHost } from '../support/host.ts'
import { report } from '../support/run-world.ts'

const host = useHost()
const offHost = useHost({ proofMode: 'off' })
const cheer = edit('a.txt', 'hello world\n', 'world', 'moon')
const again = edit('a.txt', 'hello moon\n', 'hello', 'good night,')

describe('collecting', () => {
  test('[CHG4] the end of a turn asks the agent once, with the prompts of the turn and no path', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await host().ok('POST', `${scene.session.at}/prompts`, { text: 'and more', steer: true })
    await host().live()
    await scene.tell()
    const { id, body } = scene.asked
    const [prompt, steer] = scene.session.agent
      .commands('prompt')
      .map((each) => each.body.messageId)
    expect(scene.session.agent.commands('evidence')).toHaveLength(1)
    expect(body).toEqual({
      ...{ collectId: id, turnId: scene.turn.id, messageIds: [prompt, steer] },
      ...{ after: null, maxWindows: 10 },
    })
  })

  test('[CHG4] an agent that does not say where its prompt went is not asked', async () => {
    const session = await host().begin()
    const turn = await session.prompt()
    session.agent.endTurn(turn.id)
    await host().live()
    expect(session.agent.commands('evidence')).toEqual([])
    const path = `/v1/runs/${turn.runId}/changes/backfill`
    expect(await host().ok('POST', path, {})).toMatchObject({
      collects: [],
      skipped: [{ turnId: turn.id, outcome: 'no-attribution' }],
    })
  })

  test('[CHG4] a turn with more steps than one collect may have is asked for again, after the last message', async () => {
    const scene = await ChangeScene.begin(host(), [cheer, again])
    await scene.tell()
    const whole = scene.bundle()
    await scene.collect(scene.page(0, 1), whole.messages[0]?.id)
    expect(scene.session.agent.commands('evidence')).toHaveLength(2)
    expect(scene.asked.body.after).toBe(whole.messages[0]?.id)
    await scene.collect(scene.page(1, 2))
    const { files, collects } = await scene.changes()
    expect(files).toMatchObject([{ path: 'a.txt', rejectable: true, events: [{}, {}] }])
    expect(collects).toMatchObject([{ imported: 1 }, { imported: 1 }])
    expect(scene.session.agent.commands('evidence')).toHaveLength(2)
  })
})

describe('while a turn runs', () => {
  const steps = Array.from({ length: 13 }, (_, at) =>
    edit('a.txt', `${at} of many\n`, `${at}`, `${at + 1}`),
  )
  const evidence = (scene: ChangeScene) => scene.session.agent.commands('evidence')

  /** In pages of ten steps. */
  const rest = async (scene: ChangeScene, from: number) => {
    const { messages } = scene.bundle()
    for (let at = from; at < 13; at += 10)
      await scene.collect(scene.page(at, at + 10), messages[at + 10] ? messages[at + 9]?.id : null)
  }

  test('[CHG16] ten steps that change files are collected as soon as they are done, and the rest at the end', async () => {
    const scene = await ChangeScene.begin(host(), steps)
    await scene.tellTools()
    await scene.tellSteps(9)
    expect(evidence(scene)).toEqual([])
    await scene.tellSteps(10, 9)
    const [first] = evidence(scene)
    const { messages } = scene.bundle()
    expect(first?.body).toMatchObject({ after: null, until: messages[9]?.id, maxWindows: 10 })
    // What is being read is not asked for again.
    await scene.tellSteps(12, 10)
    expect(evidence(scene)).toHaveLength(1)
    await scene.collect(scene.page(0, 10), messages[9]?.id ?? null)
    // The turn runs on: the rest is not asked for yet.
    expect(evidence(scene)).toHaveLength(1)
    const { files, collects } = await scene.changes()
    expect(files[0]?.events).toHaveLength(10)
    expect(collects).toMatchObject([
      { whileRunning: true, imported: 10, statistics: { snapshotReadCount: 10 } },
    ])
    await scene.tellSteps(13, 12)
    await scene.tellEnd()
    expect(evidence(scene)).toHaveLength(2)
    expect(scene.asked.body).toMatchObject({ after: messages[9]?.id })
    expect(scene.asked.body.until).toBeUndefined()
    await scene.collect(scene.page(10, 13))
    const after = await scene.changes()
    expect(after.files).toMatchObject([{ path: 'a.txt', rejectable: true, operation: 'modify' }])
    expect(after.files[0]?.events).toHaveLength(13)
    expect(after.collects).toMatchObject([{}, { whileRunning: false, imported: 3 }])
    expect(after.mismatches).toBe(0)
    expect(await scene.backfill()).toMatchObject({ skipped: [{ outcome: 'duplicates-only' }] })
  })

  test('[CHG16] a turn that ends meanwhile is read on from where that one came to, or began', async () => {
    for (const [reached, from] of [
      [10, 10],
      [4, 4],
      [0, 0],
    ] as const) {
      const scene = await ChangeScene.begin(host(), steps)
      await scene.tellTools()
      await scene.tellSteps(13)
      await scene.tellEnd()
      expect(evidence(scene)).toHaveLength(1)
      const { messages } = scene.bundle()
      const last = reached === 0 ? null : (messages[reached - 1]?.id ?? null)
      await scene.collect(scene.page(0, reached), last)
      expect(scene.asked.body).toMatchObject({ after: last })
      await rest(scene, from)
      expect((await scene.changes()).files[0]?.events).toHaveLength(13)
    }
  })

  test('[CHG16] one that fails is not asked for at every step, and is made up for at the end', async () => {
    const scene = await ChangeScene.begin(host(), steps)
    await scene.tellTools()
    await scene.tellSteps(10)
    scene.session.agent.fail(scene.asked.id, 'Not now')
    await host().live()
    await scene.tellSteps(13, 10)
    expect(evidence(scene)).toHaveLength(1)
    await scene.tellEnd()
    expect(scene.asked.body).toMatchObject({ after: null })
    await rest(scene, 0)
    expect((await scene.changes()).files[0]?.events).toHaveLength(13)
    expect(await scene.backfill()).toMatchObject({ skipped: [{ outcome: 'duplicates-only' }] })
  })

  test('[CHG16] off reads nothing while a turn runs, and no step at its end; a request cannot raise it', async () => {
    const scene = await ChangeScene.begin(offHost(), steps)
    await scene.tellTools()
    await scene.tellSteps(13)
    expect(evidence(scene)).toEqual([])
    await scene.tellEnd()
    expect(evidence(scene)).toMatchObject([{ body: { maxWindows: 0 } }])
    await scene.collect(scene.bundle({ files: [], reads: [] }))
    const { mode, files, collects } = await scene.changes()
    expect([mode, files[0]?.rejectable, collects[0]?.mode]).toEqual(['off', false, 'off'])
    expect(await scene.backfill({ mode: 'full' })).toMatchObject({
      ...{ mode: 'off', collects: [], skipped: [{ outcome: 'duplicates-only' }] },
    })
  })

  test('[CHG4] a collect that failed says when and why, shortly', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    scene.session.agent.fail(scene.asked.id, `Not now: ${'x'.repeat(1500)}`)
    await host().live()
    const [collect] = (await scene.changes()).collects
    expect(collect).toMatchObject({ state: 'failed', outcome: 'transient-error' })
    expect(collect?.reason).toMatch(/^Not now: x+$/)
    expect(collect?.reason).toHaveLength(1000)
    expect(collect?.endedAt).toBeGreaterThanOrEqual(collect?.createdAt ?? Infinity)
    // Its bundle comes too late.
    expect((await scene.post()).json).toEqual({ accepted: false })
    expect((await scene.changes()).files).toEqual([])
  })

  test('[CHG4] a page that fails ends the collect, and a backfill goes on after the one before it', async () => {
    const scene = await ChangeScene.begin(host(), [cheer, again])
    await scene.tell()
    const { messages } = scene.bundle()
    await scene.collect(scene.page(0, 1), messages[0]?.id)
    scene.session.agent.fail(scene.asked.id, 'Not now')
    await host().live()
    expect(evidence(scene)).toHaveLength(2)
    await scene.backfill()
    await host().live()
    expect(scene.asked.body).toMatchObject({ after: messages[0]?.id })
    await scene.collect(scene.page(1, 2))
    expect((await scene.changes()).files).toMatchObject([{ rejectable: true, events: [{}, {}] }])
  })

  test('[CHG16] steps that change nothing are not counted', async () => {
    const reading: Step[] = Array.from({ length: 12 }, () => ({ tool: 'bash', path: 'x' }))
    const scene = await ChangeScene.begin(host(), reading)
    await scene.tellTools()
    await scene.tellSteps(12)
    expect(evidence(scene)).toEqual([])
  })
})

describe('a bundle', () => {
  test('[CHG5] [CHG6] is judged, and its proven change is kept with both texts, in libSQL and in the timeline', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    await scene.collect()
    const { files, collects, mode } = await scene.changes()
    expect(mode).toBe('full')
    expect(files).toMatchObject([
      {
        ...{ path: 'a.txt', operation: 'modify', reviewable: true, rejectable: true, reasons: [] },
        events: [
          { event: { evidenceProof: 'opencode-snapshot', confidence: 'high', warnings: [] } },
        ],
      },
    ])
    const [file] = files
    for (const [link, text] of [
      [file?.before, 'hello world\n'],
      [file?.after, 'hello moon\n'],
    ] as const) {
      expect(link).toMatchObject({ sha256: sha256(text), sizeBytes: text.length })
      expect((await host().call('GET', link?.url ?? '')).text).toBe(text)
    }
    expect(collects).toMatchObject([
      {
        ...{ state: 'stored', outcome: 'imported', candidates: 1, imported: 1 },
        statistics: { attemptedChanges: 1, upgradedChanges: 1, mode: 'full' },
      },
    ])
    const [row] = await host().rows(
      'select * from task_change_events where run_id = ?',
      scene.turn.runId,
    )
    const kept = file?.events[0]
    const key = kept?.event.sourceImportKey ?? ''
    expect(key).toContain('\0')
    expect(row).toMatchObject({
      ...{ import_key_hash: sha256(key), hash: kept?.hash, relative_path: 'a.txt', rank: 50 },
      ...{ before_sha256: sha256('hello world\n'), after_sha256: sha256('hello moon\n') },
    })
    expect(sha256(String(row?.['event']))).toBe(kept?.hash)
    expect(JSON.parse(String(row?.['event']))).toEqual(kept?.event)
    const { items } = await host().ok('GET', `/v1/runs/${scene.turn.runId}/events?limit=100`)
    const entries = items.filter(({ kind }: { kind: string }) => kind === 'change.recorded')
    expect(entries).toMatchObject([{ data: { hash: kept?.hash, path: 'a.txt' } }])
    expect(await host().ok('GET', `/v1/runs/${scene.turn.runId}/verify`)).toMatchObject({
      ok: true,
    })
  })

  test('[CHG5] counts once, however often and at once it comes', async () => {
    const scene = await ChangeScene.begin(host(), [cheer, again])
    await scene.tell()
    const answers = await Promise.all([scene.post(), scene.post(), scene.post()])
    answers.push(await scene.post())
    expect(answers.filter(({ json }) => json.accepted)).toHaveLength(1)
    scene.session.agent.result(scene.asked.id, { bytes: 1, next: null })
    const rows = await host().rows(
      'select event_id from task_change_events where run_id = ?',
      scene.turn.runId,
    )
    expect(rows).toHaveLength(2)
    expect(await scene.session.events('changes.collected')).toHaveLength(1)
  })

  test('[CHG5] is taken only from the sandbox that was asked, under the id that it was asked by', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    const other = await ChangeScene.begin(host(), [cheer])
    await other.tell()
    const codes = async (answer: ReturnType<ChangeScene['post']>) => {
      const { status, json } = await answer
      return [status, json.error?.code]
    }
    expect(await codes(scene.post(scene.bundle(), other.session.token))).toEqual([
      403,
      'other_session',
    ])
    expect(await codes(scene.post(scene.bundle(), host().key))).toEqual([403, 'not_sandbox'])
    expect(await codes(scene.post(scene.bundle(), scene.session.token, other.asked.id))).toEqual([
      404,
      'not_found',
    ])
    expect((await scene.changes()).files).toEqual([])
  })

  test('[CHG5] that claims another session, prompt, agent or workspace proves nothing', async () => {
    const session = await host().begin()
    const claims: ((bundle: ReturnType<ChangeScene['bundle']>) => object)[] = [
      ({ messages }) => ({ messages: messages.map((it) => ({ ...it, parentId: 'msg_other' })) }),
      ({ messages }) => ({ messages: messages.map((it) => ({ ...it, agent: 'plan' })) }),
      ({ messages, parts }) => ({
        messages: messages.map((it) => ({ ...it, sessionId: 'ses_other' })),
        parts: parts.map((it) => ({ ...it, sessionId: 'ses_other' })),
      }),
      ({ capability }) => ({
        capability: {
          ...capability,
          session: { ...capability.session, worktree: '/elsewhere', directory: '/elsewhere' },
        },
      }),
    ]
    for (const claim of claims) {
      const scene = await ChangeScene.in(session, [cheer])
      await scene.tell()
      await scene.collect({ ...scene.bundle(), ...claim(scene.bundle()) })
      const { files } = await scene.changes()
      expect(files.map(({ rejectable }) => rejectable)).toEqual([false])
      expect(files[0]?.events[0]?.event).toMatchObject({
        evidenceProof: 'metadata-only-fallback',
        before: null,
        after: null,
      })
    }
  })

  test('[CHG5] [CHG14] that has not the form of one, or names too many changes, is refused, and the collect says so', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    const answer = await scene.post({ version: 7 })
    expect(answer.json).toEqual({ accepted: false })
    expect((await scene.changes()).collects).toMatchObject([
      { state: 'failed', outcome: 'unsafe-input', reason: 'The bundle has not the form of one' },
    ])
    expect(await scene.backfill()).toMatchObject({ collects: [{ state: 'asked' }] })
    const wide = await ChangeScene.begin(host(), [cheer])
    await wide.tell()
    const files = Array.from({ length: 1000 }, (_, at) => ({ filePath: `f${at}`, type: 'add' }))
    const parts = Array.from({ length: 11 }, (_, at) => ({
      ...{ ...wide.bundle().parts[0], id: `p${at}`, tool: 'apply_patch' },
      metadata: { exists: null, truncated: null, files },
    }))
    expect((await wide.post(wide.bundle({ parts } as object))).json).toEqual({ accepted: false })
    expect((await wide.changes()).collects).toMatchObject([{ outcome: 'unsafe-input' }])
    const large = await ChangeScene.begin(host(), [cheer])
    await large.tell()
    const { status } = await large.post({ filler: 'x'.repeat(17 * 1024 * 1024) })
    expect(status).toBe(413)
  })

  test('[CHG7] a secret in a text: the side is not there, nor is the secret anywhere', async () => {
    const canary = 'canary-9f8e7d6c5b4a-value'
    const id = await host().configuration()
    await host().ok('PUT', '/v1/secrets/CANARY', { value: canary, configurationId: id })
    const leak = edit('b.txt', `key=${canary}\n`, 'key', 'token')
    const create: Step = {
      ...{ tool: 'write', path: 'c.txt', exists: false, before: null, after: `x ${canary}\n` },
      input: { filePath: 'c.txt', content: `x ${canary}\n` },
    }
    const scene = await ChangeScene.begin(host(), [leak, create, cheer], { configurationId: id })
    await scene.tell()
    await scene.collect()
    const { files } = await scene.changes()
    expect(files.map(({ path, rejectable }) => [path, rejectable])).toEqual([
      ['b.txt', false],
      ['c.txt', false],
      ['a.txt', true],
    ])
    const rows = await host().rows(
      'select * from task_change_events where session_id = ?',
      scene.session.id,
    )
    const blobs = await host().rows('select hex(bytes) as bytes from blobs')
    expect(rows).toHaveLength(3)
    expect(JSON.stringify([rows, files, await scene.session.events()])).not.toContain(canary)
    expect(JSON.stringify(blobs)).not.toContain(Buffer.from(canary).toString('hex').toUpperCase())
    const codes = (await scene.changes()).collects.flatMap(({ diagnostics }) =>
      diagnostics.map(({ code }) => code),
    )
    expect(codes).toContain('secret-replaced')
  })
})

describe('modes', () => {
  test('[CHG8] a request may lower the mode; a better proof supersedes, and no key has two rows that count', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    await scene.collect(scene.bundle({ files: [] }))
    const before = await scene.changes()
    expect(before.files).toMatchObject([
      { rejectable: false, events: [{ event: { before: null } }] },
    ])

    expect(await scene.backfill()).toMatchObject({
      collects: [],
      skipped: [{ outcome: 'duplicates-only' }],
    })
    const headers = { 'idempotency-key': 'once' }
    const asked = await scene.backfill({ mode: 'single-change' }, headers)
    expect(asked).toMatchObject({ mode: 'single-change', collects: [{ state: 'asked' }] })
    expect((await scene.backfill({ mode: 'single-change' }, headers)).collects[0].id).toBe(
      asked.collects[0].id,
    )
    await host().live()
    await scene.collect()
    const after = await scene.changes()
    const [metadataOnly, proven] = [before, after].map(({ files }) => files[0]?.events[0]?.event)
    expect(after.files[0]?.events).toHaveLength(1)
    expect(proven).toMatchObject({
      ...{ evidenceProof: 'opencode-snapshot', supersedesEventId: metadataOnly?.eventId },
      sourceImportKey: metadataOnly?.sourceImportKey,
    })
    const rows = await host().rows(
      'select rank from task_change_events where run_id = ? order by rank',
      scene.turn.runId,
    )
    expect(rows.map(({ rank }) => rank)).toEqual([10, 50])
    // Something weaker that comes later changes nothing.
    await scene.backfill({ mode: 'off' })
    await host().live()
    expect(scene.asked.body.maxWindows).toBe(0)
    await scene.collect(scene.bundle({ files: [], reads: [] }))
    expect((await scene.changes()).fingerprint).toBe(after.fingerprint)
    expect((await scene.changes()).collects.at(-1)).toMatchObject({ outcome: 'duplicates-only' })
  })

  test('[CHG8] [CHG11] a better proof that comes later stands where its change was first seen', async () => {
    const scene = await ChangeScene.begin(host(), [
      cheer,
      edit('b.txt', 'x\n', 'x', 'y'),
      edit('a.txt', 'hello moon\n', 'moon', 'sun'),
    ])
    await scene.tell()
    await scene.collect(scene.bundle({ files: [] }))
    await scene.backfill({ mode: 'single-change' })
    await host().live()
    await scene.collect(scene.bundle({ files: scene.bundle().files.slice(0, 2) }))
    const { files } = await scene.changes()
    const proofs = files.map(({ path, events }) => [
      path,
      events.map(({ event }) => [event.newString, event.before !== null]),
    ])
    expect(proofs).toEqual([
      [
        'a.txt',
        [
          ['moon', true],
          ['sun', false],
        ],
      ],
      ['b.txt', [['y', true]]],
    ])
    expect(files[0]).toMatchObject({ before: { sha256: sha256('hello world\n') }, after: null })
  })

  test('[CHG4] [CHG8] backfills at once ask once, and none gets more than the deployment has', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    await scene.collect()
    const modes = ['single-change', 'single-change', 'single-change', 'full'] as const
    const answers = await Promise.all(modes.map((mode) => scene.backfill({ mode })))
    const asked = answers.flatMap(({ collects }) => collects as { id: string; mode: string }[])
    expect(asked.map(({ mode }) => mode)).toEqual(['single-change'])
    expect(answers.flatMap(({ skipped }) => skipped as { outcome: string }[])).toHaveLength(3)
    await host().live()
    await scene.collect()
    const { files, collects } = await scene.changes()
    expect(files[0]?.events).toHaveLength(1)
    expect(collects.map(({ mode, outcome }) => [mode, outcome])).toEqual([
      ['full', 'imported'],
      ['single-change', 'duplicates-only'],
    ])
  })

  test('[CHG8] shadow imports exactly what off imports, and counts what it would prove', async () => {
    const found: Record<string, object> = {}
    for (const mode of ['off', 'shadow', 'full'] as const) {
      const scene = await ChangeScene.begin(host(), [cheer])
      await scene.tell()
      scene.session.agent.fail(scene.asked.id, 'Not now')
      await host().live()
      await scene.backfill({ mode })
      await host().live()
      await scene.collect(mode === 'off' ? scene.bundle({ files: [], reads: [] }) : undefined)
      const { files, collects } = await scene.changes()
      const { event } = files[0]!.events[0]!
      found[mode] = {
        proof: event.evidenceProof,
        texts: [event.before, event.after],
        warnings: event.warnings,
        rejectable: files[0]?.rejectable,
      }
      expect(collects.at(-1)?.statistics).toMatchObject({
        mode,
        wouldUpgradeChanges: mode === 'off' ? 0 : 1,
        upgradedChanges: mode === 'full' ? 1 : 0,
      })
    }
    expect(found['shadow']).toEqual(found['off'])
    expect(found['full']).not.toEqual(found['off'])
  })

  test('[CHG8] a turn whose sandbox was replaced has no history any more', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    const { id } = scene.asked
    const { token } = scene.session
    scene.session.agent.send({ t: 'failed', reason: 'It broke' })
    await host().live(120_000)
    await scene.session.meet()
    expect((await scene.changes()).collects).toMatchObject([
      { state: 'failed', outcome: 'transient-error', reason: 'The sandbox is gone' },
    ])
    expect(await scene.backfill()).toMatchObject({
      collects: [],
      skipped: [{ outcome: 'no-history' }],
    })
    expect((await scene.post(scene.bundle(), token, id)).json.error?.code).toBe('old_generation')
    expect((await scene.post(scene.bundle(), scene.session.token, id)).json.error?.code).toBe(
      'old_generation',
    )
  })
})

test('[CHG15] a proof changes nothing of a review but what it proves, and nobody is told that something is safe', async () => {
  const seen = []
  for (const mode of ['off', 'full'] as const) {
    const scene = await ChangeScene.begin(host(), [edit('z.txt', 'x\n', 'x', 'y'), cheer])
    await scene.tell()
    scene.session.agent.fail(scene.asked.id, 'Not now')
    await host().live()
    await scene.backfill({ mode })
    await host().live()
    await scene.collect(mode === 'off' ? scene.bundle({ files: [], reads: [] }) : undefined)
    const path = `/v1/runs/${scene.turn.runId}/changes/accept`
    await host().ok('POST', path, { paths: ['z.txt'] })
    const changes = await scene.changes()
    const events = await scene.session.events()
    const said = JSON.stringify([changes, await host().ok('GET', `/v1/runs/${scene.turn.runId}`)])
    expect(said).not.toMatch(/\b(safe|guaranteed|success\w*|congrat\w*)\b/i)
    seen.push({
      files: changes.files.map((file) => [
        file.path,
        file.operation,
        file.decision,
        file.events.length,
      ]),
      kinds: events.map(({ kind }: { kind: string }) => kind),
    })
    const [told] = await scene.session.events('changes.collected')
    expect(told.data).toMatchObject({
      ...(mode === 'off'
        ? {
            attempted: 0,
            upgraded: 0,
            wouldUpgrade: 0,
            skipped: { 'feature-flag-off': 2 },
            reads: 0,
          }
        : { attempted: 2, upgraded: 2, wouldUpgrade: 2, skipped: {}, reads: 2, readMs: 2 }),
    })
  }
  expect(seen[1]).toEqual(seen[0])
})

describe('out of band', () => {
  test('[CHG9] a part that was never seen, reads otherwise or is gone is told, in the log, the timeline and the run', async () => {
    const steps = [
      cheer,
      edit('b.txt', 'one\n', 'one', 'two'),
      edit('c.txt', 'x\n', 'x', 'y'),
      edit('d.txt', 'x\n', 'x', 'y'),
    ]
    const scene = await ChangeScene.begin(host(), steps)
    await scene.tell([1])
    const bundle = scene.bundle()
    const [a, b, c, d] = bundle.parts
    const forged = { ...c!, input: { filePath: 'c.txt', oldString: 'x', newString: 'z' } }
    await scene.collect({ ...bundle, parts: [a, b, forged] })
    const expected = [
      { partId: b?.id, tool: 'edit', what: 'never-seen' },
      { partId: c?.id, tool: 'edit', what: 'differs' },
      { partId: d?.id, tool: 'edit', what: 'gone' },
    ]
    const told = await scene.session.events('evidence.mismatch')
    expect(told.map(({ data }: { data: object }) => data)).toMatchObject(expected)
    const run = await host().ok('GET', `/v1/runs/${scene.turn.runId}`)
    expect(run.evidence).toMatchObject({ mismatches: 3, changes: 3 })
    const { files, warnings, mismatches } = await scene.changes()
    expect(files.map(({ path, rejectable }) => [path, rejectable])).toEqual([
      ['a.txt', true],
      ['b.txt', false],
      ['c.txt', false],
    ])
    expect([warnings[0], mismatches]).toEqual([
      '3 tool parts read otherwise in the sandbox than over the link',
      3,
    ])
    // Told once.
    await scene.backfill({ mode: 'shadow' })
    await host().live()
    await scene.collect({ ...bundle, parts: [a, b, forged] })
    expect(await scene.session.events('evidence.mismatch')).toHaveLength(3)
  })

  test('[CHG9] the trees of a step are those that came over the link, or it proves nothing', async () => {
    const other = '0'.repeat(40)
    for (const [over, what] of [
      [{}, null],
      [{ from: undefined }, null],
      [{ from: other }, 'differs'],
      [{ to: other }, 'differs'],
      [{ from: null }, 'differs'],
    ] as const) {
      const scene = await ChangeScene.begin(host(), [cheer])
      await scene.tellTools()
      await scene.tellSteps(1, 0, over)
      await scene.tellEnd()
      await scene.collect()
      const { files, mismatches } = await scene.changes()
      expect([over, files[0]?.rejectable, mismatches]).toEqual([
        ...[over, what === null, what === null ? 0 : 1],
      ])
      const told = await scene.session.events('evidence.mismatch')
      expect(told.map(({ data }: { data: object }) => data)).toMatchObject(
        what === null ? [] : [{ tool: 'step', what }],
      )
    }
    const scene = await ChangeScene.begin(host(), [cheer, again])
    await scene.tellTools()
    await scene.tellSteps(1)
    await scene.tellEnd()
    await scene.collect()
    const told = await scene.session.events('evidence.mismatch')
    expect(told).toMatchObject([{ data: { tool: 'step', what: 'never-seen' } }])
    expect((await scene.changes()).files[0]?.events.map(({ reviewable }) => reviewable)).toEqual([
      true,
      false,
    ])
  })

  test('[CHG9] a change that came over the link and whose whole message is gone is told', async () => {
    const scene = await ChangeScene.begin(host(), [cheer, again, { tool: 'bash', path: 'x' }])
    await scene.tell()
    await scene.collect(scene.page(0, 1))
    const told = await scene.session.events('evidence.mismatch')
    expect(told).toMatchObject([{ data: { tool: 'edit', what: 'gone' } }])
    expect((await scene.changes()).mismatches).toBe(1)
  })

  test('[EVD14] a tool that came over the link and was taken out of the records, or called a reader there, still counts', async () => {
    const proven = async (tool: string, inRecords: string | null) => {
      const scene = await ChangeScene.begin(host(), [cheer])
      await scene.tellTools()
      const { messageId } = scene.bundle().parts[0]!
      const own = { sessionId: 'ses_oc', messageId, partId: 'prt_beside', callId: 'call_beside' }
      const data = { ...own, tool, turnId: scene.turn.id, agent: 'build', input: {} }
      scene.session.agent.emit('tool.started', data)
      const end = { title: '', output: '', truncated: false, durationMs: 1 }
      scene.session.agent.emit('tool.completed', { ...data, ...end })
      await scene.tellEnd()
      const bundle = scene.bundle()
      const [part] = bundle.parts
      const beside = { ...part!, id: 'prt_beside', callId: 'call_beside', input: null }
      const parts = inRecords ? [part!, { ...beside, order: 3, tool: inRecords }] : [part!]
      await scene.collect({ ...bundle, parts })
      const { files, collects } = await scene.changes()
      const codes = collects[0]?.diagnostics.map(({ code }) => code) ?? []
      return [files[0]?.rejectable, codes.includes('opaque-tool-in-window')]
    }
    expect(await proven('read', 'read')).toEqual([true, false])
    expect(await proven('read', null)).toEqual([true, false])
    expect(await proven('bash', null)).toEqual([false, true])
    expect(await proven('bash', 'read')).toEqual([false, true])
    expect(await proven('write', null)).toEqual([false, true])
  })

  test('[CHG18] what a collect could not hold is named: nothing of it is proven, and nothing counts as gone', async () => {
    const created = {
      ...{ tool: 'write' as const, path: 'new.txt', exists: false, before: null, after: 'new\n' },
      input: { filePath: 'new.txt', content: 'new\n' },
    }
    const scene = await ChangeScene.begin(host(), [cheer, created, again])
    await scene.tell()
    const bundle = scene.page(0, 2)
    const left = { code: 'part-limit' as const, windowId: null, path: null, partId: null }
    await scene.collect({ ...bundle, failures: [left] }, bundle.messages[1]?.id ?? null)
    await scene.collect(scene.page(2, 3))
    const { files, mismatches, collects } = await scene.changes()
    expect(mismatches).toBe(0)
    const events = files.map(({ path, events }) => [
      path,
      events.map(({ event }) => event.evidenceProof),
    ])
    expect(events).toEqual([
      ['a.txt', ['metadata-only-fallback', 'opencode-snapshot']],
      ['new.txt', ['metadata-only-fallback']],
    ])
    expect(collects.map(({ outcome }) => outcome)).toEqual(['manual-only', 'imported'])
    expect(collects[0]?.statistics?.skippedByReason).toEqual({ 'part-limit': 2 })
    expect(collects[0]?.diagnostics.map(({ code }) => code)).toContain('part-limit')
    const beyond = await ChangeScene.begin(host(), [cheer, again])
    await beyond.tell()
    const whole = beyond.bundle()
    const [kept, gone] = whole.parts
    const failures = [left, { ...left, partId: gone!.id }]
    await beyond.collect({ ...whole, parts: [kept!], failures })
    expect((await beyond.changes()).mismatches).toBe(0)
  })

  test('[CHG9] each field of a part that reads otherwise is told, and an end that is none yet is not', async () => {
    const fields: [string, object, boolean][] = [
      ['session', { sessionId: 'ses_else' }, true],
      ['message', { messageId: 'msg_else' }, true],
      ['tool', { tool: 'write' }, true],
      ['call', { callId: 'call_else' }, true],
      ['end', { status: 'error' }, true],
      ['no end', { status: 'running' }, false],
      ['input', { input: { filePath: 'a.txt' } }, true],
      ['an input that is not whole', { input: { filePath: 'a.txt' }, inputTruncated: true }, false],
      ['no input', { input: null }, false],
    ]
    for (const [name, over, isTold] of fields) {
      const scene = await ChangeScene.begin(host(), [cheer])
      await scene.tell()
      const bundle = scene.bundle()
      const [message] = bundle.messages
      const messages = [...bundle.messages, { ...message!, id: 'msg_else' }]
      await scene.collect({ ...bundle, messages, parts: [{ ...bundle.parts[0]!, ...over }] })
      const told = await scene.session.events('evidence.mismatch')
      expect([name, told.map(({ data }: { data: { what: string } }) => data.what)]).toEqual([
        name,
        isTold ? ['differs'] : [],
      ])
      expect([name, (await scene.changes()).files[0]?.rejectable ?? false]).toEqual([name, false])
    }
  })

  const made: Step = {
    ...{ tool: 'write', path: 'b.txt', exists: true, before: 'kept\n', after: 'new\n' },
    input: { filePath: 'b.txt', content: 'new\n' },
  }
  /** As whoever works in the sandbox may leave the records of a tool. */
  const rewritten = (scene: ChangeScene, over: object) => {
    const { parts, ...rest } = scene.bundle()
    return { ...rest, parts: parts.map((part) => ({ ...part, ...over })) }
  }

  test('[CHG9] a file that was there is not made by the records: nothing would put its text back', async () => {
    const scene = await ChangeScene.begin(host(), [made])
    await scene.tell()
    const metadata = { exists: false, truncated: false, files: null }
    await scene.collect(rewritten(scene, { metadata }))
    expect(await scene.session.events('evidence.mismatch')).toMatchObject([
      { data: { tool: 'write', what: 'differs' } },
    ])
    const { files } = await scene.changes()
    expect(files).toMatchObject([
      { rejectable: false, events: [{ event: { evidenceProof: 'metadata-only-fallback' } }] },
    ])
  })

  test('[CHG9] a content that was too long for the link is the one that the tool was given', async () => {
    const long = 'x'.repeat(400_000)
    const step: Step = { tool: 'write', path: 'c.txt', exists: false }
    for (const [found, proof] of [
      [long, 'toolpart-chain'],
      [`${long}y`, 'metadata-only-fallback'],
    ] as const) {
      const input = { filePath: 'c.txt', content: long }
      const scene = await ChangeScene.begin(host(), [{ ...step, input }])
      await scene.tell()
      await scene.collect(rewritten(scene, { input: { ...input, content: found } }))
      const { files } = await scene.changes()
      expect([found.length, files[0]?.events[0]?.event.evidenceProof]).toEqual([
        found.length,
        proof,
      ])
    }
  })

  test('[EVD8] a new file is not exact by the records of an agent that does not tell what tools have said', async () => {
    for (const [isOlder, proof] of [
      [false, 'toolpart-chain'],
      [true, 'metadata-only-fallback'],
    ] as const) {
      const step = { ...made, exists: false, before: null }
      const scene = await ChangeScene.begin(host(), [step])
      scene.agentIsOlder = isOlder
      await scene.tell()
      await scene.collect(scene.bundle({ files: [], reads: [] }))
      const { files } = await scene.changes()
      expect([isOlder, files[0]?.events[0]?.event.evidenceProof]).toEqual([isOlder, proof])
      expect(await scene.session.events('evidence.mismatch')).toEqual([])
    }
  })

  test('[CHG9] what came over the link and is in the records agrees', async () => {
    const scene = await ChangeScene.begin(host(), [cheer, { tool: 'bash', path: 'a.txt' }])
    await scene.tell()
    await scene.collect()
    expect(await scene.session.events('evidence.mismatch')).toEqual([])
  })
})

/** Of an agent that is not OpenCode. */
const event = (runId: string, change: Partial<ChangeEvent> = {}): ChangeEvent => ({
  ...{
    schemaVersion: 1,
    eventId: 'evt_codex_1',
    taskId: runId,
    taskRef: '#7',
    taskRefKind: 'display',
  },
  ...{
    phase: 'work',
    executionSeq: 3,
    sessionId: 'codex-1',
    memberName: 'codex',
    toolUseId: 'call_1',
  },
  ...{ source: 'codex_patch', operation: 'modify', confidence: 'exact', workspaceRoot: '/repo' },
  ...{
    filePath: '/repo/x.txt',
    relativePath: 'x.txt',
    timestamp: '2026-01-01T00:00:00Z',
    toolStatus: null,
  },
  before: { sha256: sha256(''), sizeBytes: 0, blobRef: `sha256:${sha256('')}` },
  after: null,
  beforeState: { exists: true, sha256: sha256(''), sizeBytes: 0 },
  afterState: { exists: true, unavailableReason: 'not-captured' },
  ...{ relation: null, oldString: null, newString: null, linesAdded: null, linesRemoved: null },
  ...{
    sourceRuntime: 'codex',
    sourceProvider: 'openai',
    sourceSessionId: null,
    sourcePartId: null,
  },
  ...{ sourceMessageId: null, parentUserMessageId: null, attributionMethod: 'board-tool-call' },
  ...{ sourceImportKey: 'codex\0one\0x.txt', evidenceProof: 'codex-journal', snapshotId: null },
  ...{
    snapshotSource: null,
    shapeFingerprint: null,
    supersedesEventId: null,
    warnings: ['kept as it is'],
  },
  ...change,
})
const foreignChange = (runId: string) => ({ event: event(runId), beforeContent: '' })

describe('other agents', () => {
  const importInto = (scene: ChangeScene, changes: object[], headers = {}) =>
    host().call(
      'POST',
      `/v1/runs/${scene.turn.runId}/changes/import`,
      { changes },
      host().key,
      headers,
    )

  test('[CHG10] their events are kept as they are, once, and an unknown proof is not safe', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    const change = { event: event(scene.turn.runId), beforeContent: '' }
    expect((await importInto(scene, [change])).json).toEqual({ imported: 1, duplicates: 0 })
    expect((await importInto(scene, [change])).json).toEqual({ imported: 0, duplicates: 1 })
    const { files } = await scene.changes()
    expect(files).toMatchObject([{ path: 'x.txt', reviewable: false, rejectable: false }])
    expect(files[0]?.events[0]?.event).toEqual(change.event)
    expect((await host().call('GET', files[0]?.before?.url ?? '')).text).toBe('')
  })

  test('[CHG7] a secret in a text of theirs is not kept, and its side is not known', async () => {
    const canary = 'canary-1a2b3c4d5e6f-value'
    const id = await host().configuration()
    await host().ok('PUT', '/v1/secrets/CANARY2', { value: canary, configurationId: id })
    const scene = await ChangeScene.begin(host(), [], { configurationId: id })
    const text = `key=${canary}\n`
    const state = { sha256: sha256(text), sizeBytes: text.length }
    const ref = { ...state, blobRef: `sha256:${state.sha256}` }
    const change = {
      event: event(scene.turn.runId, {
        ...{ before: ref, beforeState: { exists: true, ...state }, oldString: canary },
        ...{ after: ref, afterState: { exists: true, ...state } },
      }),
      ...{ beforeContent: text, afterContent: text },
    }
    expect((await importInto(scene, [change])).json).toEqual({ imported: 1, duplicates: 0 })
    const { files } = await scene.changes()
    const gone = { exists: true, unavailableReason: 'secret-replaced' }
    expect(files[0]).toMatchObject({ rejectable: false, before: null, after: null })
    expect(files[0]?.events[0]?.event).toMatchObject({
      ...{ before: null, after: null, beforeState: gone, afterState: gone },
    })
    const rows = await host().rows(
      'select * from task_change_events where session_id = ?',
      scene.session.id,
    )
    expect(rows).toHaveLength(1)
    expect(JSON.stringify([rows, files])).not.toContain(canary)
  })

  test('[CHG12] what was decided about a file is about it as it was: another change makes it open again', async () => {
    const scene = await ChangeScene.begin(host(), [])
    const { runId } = scene.turn
    await importInto(scene, [{ event: event(runId), beforeContent: '' }])
    const decision = async () => (await scene.changes()).files[0]?.decision
    expect(await decision()).toBeNull()
    await host().ok('POST', `/v1/runs/${runId}/changes/accept`, { paths: ['x.txt'] })
    expect(await decision()).toBe('accepted')
    const next = { eventId: 'evt_codex_2', sourceImportKey: 'codex\0two\0x.txt' }
    await importInto(scene, [{ event: event(runId, next), beforeContent: '' }])
    expect(await decision()).toBeNull()
  })

  test('[CHG10] [CHG14] what is not theirs to say is refused, with the field', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    const { runId } = scene.turn
    const bad: [object, string][] = [
      [
        { event: event(runId, { sourceProvider: 'opencode' }), beforeContent: '' },
        'changes.0.event.sourceProvider',
      ],
      [
        { event: event(runId, { source: 'opencode_toolpart_edit' }), beforeContent: '' },
        'changes.0.event.sourceProvider',
      ],
      [
        { event: event(runId, { sourceRuntime: 'OpenCode' }), beforeContent: '' },
        'changes.0.event.sourceProvider',
      ],
      ...[' opencode', 'Open Code', '\u200bopencode', 'ｏｐｅｎcode', 'open-code'].map(
        (sourceProvider): [object, string] => [
          { event: event(runId, { sourceProvider }), beforeContent: '' },
          'changes.0.event.sourceProvider',
        ],
      ),
      [
        {
          event: event(runId, { sourceImportKey: 'opencode\0ses_oc\0prt_1\0a.txt' }),
          beforeContent: '',
        },
        'changes.0.event.sourceImportKey',
      ],
      [
        { event: event(runId, { eventId: `evt_${'0'.repeat(40)}` }), beforeContent: '' },
        'changes.0.event.eventId',
      ],
      ...['opencode-snapshot', 'inverse-edit-chain', 'inverse-apply-patch-chain'].map(
        (evidenceProof): [object, string] => [
          { event: event(runId, { evidenceProof }), beforeContent: '' },
          'changes.0.event.evidenceProof',
        ],
      ),
      [
        { event: event(runId, { snapshotSource: 'opencode' }), beforeContent: '' },
        'changes.0.event.snapshotSource',
      ],
      [
        { event: event(runId, { shapeFingerprint: 'x' }), beforeContent: '' },
        'changes.0.event.snapshotSource',
      ],
      ...['/etc/passwd', '../x', 'a/../b', 'a//b', './a', 'a\\b', 'a\nb', 'C:\\a', '//h/a'].map(
        (relativePath): [object, string] => [
          { event: event(runId, { relativePath }), beforeContent: '' },
          'changes.0.event.relativePath',
        ],
      ),
      [{ event: event('run_other'), beforeContent: '' }, 'changes.0.event.taskId'],
      [{ event: event(runId) }, 'changes.0.event.before'],
      [{ event: event(runId), beforeContent: 'other' }, 'changes.0.event.before'],
      [{ event: event(runId), beforeContent: '', afterContent: 'x' }, 'changes.0.event.after'],
    ]
    for (const [change, path] of bad) {
      const { status, json } = await importInto(scene, [change])
      expect([status, json.error.details[0].path]).toEqual([422, path])
    }
    expect((await scene.changes()).files).toEqual([])
  })

  test('[CHG14] their change is rejectable only in this workspace, and what it says to supersede hides nothing', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    await scene.collect()
    const own = (await scene.changes()).files[0]?.events[0]?.event.eventId ?? ''
    const { workspace } = scene.session.manifest.layout
    const ref = (text: string) => ({
      ...{ sha256: sha256(text), sizeBytes: text.length, blobRef: `sha256:${sha256(text)}` },
    })
    const known = (text: string) => ({ exists: true, sha256: sha256(text), sizeBytes: text.length })
    const made = (name: string, root: string) => ({
      event: event(scene.turn.runId, {
        ...{ eventId: name, relativePath: name, sourceImportKey: name, workspaceRoot: root },
        ...{ evidenceProof: 'toolpart-chain', supersedesEventId: own },
        ...{ before: ref('one'), after: ref('two') },
        ...{ beforeState: known('one'), afterState: known('two') },
      }),
      ...{ beforeContent: 'one', afterContent: 'two' },
    })
    await importInto(scene, [made('here.txt', workspace), made('there.txt', '/elsewhere')])
    const { files } = await scene.changes()
    expect(files.map(({ path, reviewable, rejectable }) => [path, reviewable, rejectable])).toEqual(
      [
        ['a.txt', true, true],
        ['here.txt', true, true],
        ['there.txt', true, false],
      ],
    )
    expect(files[2]?.reasons).toEqual(['It was made in another workspace'])
    const trace = await host().ok('GET', `/v1/runs/${scene.turn.runId}/bundle?format=agent-trace`)
    expect(trace.files[0]).toMatchObject({ path: 'a.txt', conversations: [{}] })
  })

  test('[CHG14] their event without a key hides none of OpenCode, though its id be the hash of a key', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    await scene.collect(scene.bundle({ files: [], reads: [] }))
    const own = (await scene.changes()).files[0]?.events[0]?.event
    const ref = { sha256: sha256(''), sizeBytes: 0, blobRef: `sha256:${sha256('')}` }
    const imported = event(scene.turn.runId, {
      ...{ eventId: sha256(own?.sourceImportKey ?? ''), sourceImportKey: null },
      ...{ evidenceProof: 'toolpart-chain', operation: 'create', before: null, after: ref },
      ...{ beforeState: { exists: false }, afterState: { exists: true, ...ref } },
    })
    await importInto(scene, [{ event: imported, afterContent: '' }])
    const { files } = await scene.changes()
    expect(files.map(({ path, events }) => [path, events.length])).toEqual([
      ['a.txt', 1],
      ['x.txt', 1],
    ])
    expect(files[0]?.events[0]?.event).toEqual(own)
  })

  test('[CHG10] evidence without a text never beats one that has it', () => {
    const of = (evidenceProof: string, hasText: boolean) =>
      evidenceEventRank(event('r', { evidenceProof, before: hasText ? event('r').before : null }))
    const order = [
      of('metadata-only-fallback', false),
      of('opencode-snapshot', false),
      of('something', true),
      of('inverse-edit-chain', true),
      of('opencode-snapshot', true),
    ]
    expect(order).toEqual([10, 20, 30, 40, 50])
  })
})

describe('reviewing', () => {
  const gap = edit('a.txt', 'changed by hand\n', 'hand', 'foot')
  const create: Step = {
    ...{ tool: 'write', path: 'n.txt', exists: false, before: null, after: 'new\n' },
    input: { filePath: 'n.txt', content: 'new\n' },
  }
  test('[CHG11] diagnostics of many collects are those of the newest, so that the answer stays an answer', async () => {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    const failures = Array.from({ length: 900 }, (_, n) => ({
      ...{ code: 'no-file-anchor' as const, partId: `p${n}`, windowId: null },
      path: `${'x'.repeat(280)}${n}`,
    }))
    const bundle = scene.bundle({ failures })
    await scene.collect(bundle, scene.bundle().messages[0]?.id)
    for (let more = 0; more < 4; more += 1)
      await scene.collect(
        { ...bundle, messages: [], parts: [], windows: [], files: [], reads: [] },
        `msg_${more}`,
      )
    const { collects } = await scene.changes()
    const told = collects
      .filter(({ state }) => state === 'stored')
      .map((each) => each.diagnostics.length)
    expect(told.length).toBeGreaterThan(4)
    expect(told[0]).toBe(0)
    expect(told.at(-1)).toBeGreaterThan(800)
    expect(JSON.stringify(collects).length).toBeLessThan(1.5 * 1024 * 1024)
  })

  test('[CHG11] the net operation of a file, and a gap between its changes', async () => {
    const scene = await ChangeScene.begin(host(), [
      create,
      edit('n.txt', 'new\n', 'new', 'newer'),
      cheer,
      gap,
    ])
    await scene.tell()
    await scene.collect()
    const { files } = await scene.changes()
    expect(files).toMatchObject([
      {
        path: 'n.txt',
        operation: 'create',
        rejectable: true,
        before: null,
        after: { sha256: sha256('newer\n') },
      },
      {
        path: 'a.txt',
        operation: 'modify',
        reviewable: true,
        rejectable: false,
        reasons: ['Between two of its changes something else has changed it'],
      },
    ])
  })

  test('[CHG11] pages have the files in order, and each once; another tenant sees nothing', async () => {
    const names = ['c', 'a', 'd', 'b', 'e']
    const scene = await ChangeScene.begin(
      host(),
      names.map((name) => edit(name, 'x\n', 'x', name)),
    )
    await scene.tell()
    await scene.collect()
    const seen: string[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const page = await scene.changes(`?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`)
      seen.push(...page.files.map(({ path }) => path))
      cursor = page.nextCursor
    }
    expect(seen).toEqual(names)
    const stranger = (await host().app.makeKey(await host().app.makeOrganisation(), 'admin')).secret
    const { runId } = scene.turn
    for (const path of [
      `/v1/runs/${runId}/changes`,
      `/v1/runs/${runId}/changes/texts/${sha256('x\n')}`,
    ])
      expect(await host().refusal('GET', path, undefined, stranger)).toEqual([404, 'not_found'])
    const path = `/v1/runs/${runId}/changes/texts/${sha256('not a text of it')}`
    expect(await host().refusal('GET', path)).toEqual([404, 'not_found'])
  })

  test('[CHG6] with the session its events and texts go, but for texts that another session holds', async () => {
    const [first, second] = [
      await ChangeScene.begin(host(), [cheer]),
      await ChangeScene.begin(host(), [cheer]),
    ]
    for (const scene of [first, second]) {
      await scene.tell()
      await scene.collect()
    }
    const count = async (table: string) =>
      (await host().rows(`select 1 from ${table} where session_id = ?`, first.session.id)).length
    expect([await count('task_change_events'), await count('change_texts')]).toEqual([1, 2])
    await host().ok('DELETE', first.session.at)
    await host().live(60_000)
    expect([await count('task_change_events'), await count('change_texts')]).toEqual([0, 0])
    const { files } = await second.changes()
    expect((await host().call('GET', files[0]?.after?.url ?? '')).text).toBe('hello moon\n')
    expect(side(null)).toEqual({ state: 'absent' })
  })
})

describe('rejecting', () => {
  const scene = async (steps: Step[] = [cheer], body: object = {}) => {
    const made = await ChangeScene.begin(host(), steps, body)
    await made.tell()
    await made.collect()
    return made
  }
  const reject = (made: ChangeScene, body: object = { all: true }, headers = {}) =>
    host().call('POST', `/v1/runs/${made.turn.runId}/changes/reject`, body, host().key, headers)
  /** The operation-default asks before edits: somebody approves, and the operation is resumed. */
  const approve = async (made: ChangeScene, file: { approvalId: string }) => {
    const approver = await host().newApprover(`approver ${made.name}`)
    const resolution = { resolution: 'approved', reason: 'fine' }
    await host().ok('POST', `/v1/approvals/${file.approvalId}/resolve`, resolution, approver)
    await host().ok('POST', `/v1/approvals/${file.approvalId}/resume`, {})
    await host().live()
  }

  test('[CHG12] asks by policy, and the agent gets what to expect and what to restore, once', async () => {
    const made = await scene()
    const first = await reject(made)
    expect(first.status).toBe(202)
    const [file] = first.json.files
    expect(file).toMatchObject({ path: 'a.txt', state: 'waiting' })
    expect(made.session.agent.commands('execute')).toEqual([])
    const [again, third] = await Promise.all([reject(made, { paths: ['a.txt'] }), reject(made)])
    expect([again.json.files[0].operationId, third.json.files[0].operationId]).toEqual([
      file.operationId,
      file.operationId,
    ])
    await approve(made, file)
    const { id, body } = await made.session.agent.command('execute')
    expect(body).toMatchObject({
      operation: {
        ...{ operation: 'revert-file', targetPath: 'a.txt', content: 'hello world\n' },
        revert: { expect: sha256('hello moon\n'), restore: sha256('hello world\n') },
      },
      plan: { strategy: 'workspace' },
    })
    expect((await reject(made)).json.files[0].state).toBe('planned')
    made.session.agent.result(id, { ...report({ output: 'Restored' }) })
    await host().live()
    expect((await reject(made)).json.files).toMatchObject([
      { state: 'applied', reason: 'Restored' },
    ])
    expect(made.session.agent.commands('execute')).toHaveLength(1)
    const review = await host().ok('GET', `/v1/runs/${first.json.runId}`)
    expect(review.run).toMatchObject({
      status: 'completed',
      intent: `Reject changes of ${made.turn.runId}`,
    })
    expect((await made.changes()).files[0]?.decision).toBe('rejected')
  })

  test('[CHG12] a conflict is told and changes neither file nor proof; it may be tried again', async () => {
    const made = await scene()
    const first = { 'idempotency-key': 'first' }
    const [file] = (await reject(made, { all: true }, first)).json.files
    await approve(made, file)
    const { id } = await made.session.agent.command('execute')
    made.session.agent.result(id, {
      ...report({ status: 'failed', error: 'Conflict: it was changed since' }),
    })
    await host().live()
    expect((await reject(made, { all: true }, first)).json.files[0]).toMatchObject({
      ...{ state: 'conflict', reason: 'Conflict: it was changed since' },
    })
    const answer = await reject(made, { paths: ['a.txt'] }, { 'idempotency-key': 'again' })
    expect(answer.json.files[0]).toMatchObject({ state: 'waiting' })
    expect(answer.json.files[0].operationId).not.toBe(file.operationId)
    expect((await made.changes()).files[0]).toMatchObject({ rejectable: true })
    const repeated = await reject(made, { paths: ['a.txt'] }, { 'idempotency-key': 'again' })
    expect(repeated.json.files[0].operationId).toBe(answer.json.files[0].operationId)
  })

  test('[CHG12] a file that is named twice is taken back once', async () => {
    const made = await scene()
    const { json } = await reject(made, { paths: ['a.txt', 'a.txt'] })
    expect(json.files).toMatchObject([{ path: 'a.txt', state: 'waiting' }])
  })

  test('[CHG12] what is not proven is skipped, file by file', async () => {
    const create: Step = {
      ...{ tool: 'write', path: 'n.txt', exists: false, before: null, after: 'new\n' },
      input: { filePath: 'n.txt', content: 'new\n' },
    }
    const unproven: Step = {
      tool: 'edit',
      path: 'u.txt',
      input: { filePath: 'u.txt', oldString: 'a', newString: 'b' },
    }
    const made = await scene([create, unproven])
    const { files } = (await reject(made)).json
    expect(files).toMatchObject([
      { path: 'n.txt', state: 'waiting' },
      { path: 'u.txt', state: 'manual', operationId: null },
    ])
    expect(files[1].reason).toContain('not proven')
    await approve(made, files[0])
    const { body } = await made.session.agent.command('execute')
    expect(body.operation).toMatchObject({
      targetPath: 'n.txt',
      revert: { expect: sha256('new\n'), restore: null },
    })
    expect(body.operation.content).toBeUndefined()
  })

  test('[CHG17] single hunks, one after the other, then the rest: each expects what the one before has left', async () => {
    const numbered = (over: Record<number, string> = {}) =>
      Array.from({ length: 20 }, (_, at) => `${over[at] ?? `line ${at}`}\n`).join('')
    const changed = { 2: 'second', 10: 'tenth', 18: 'last' }
    const whole: Step = {
      ...{
        tool: 'write',
        path: 'h.txt',
        exists: true,
        before: numbered(),
        after: numbered(changed),
      },
      input: { filePath: 'h.txt', content: numbered(changed) },
    }
    const made = await scene([whole])
    const at = `/v1/runs/${made.turn.runId}/changes/hunks?path=h.txt`
    const { hunks } = await host().ok('GET', at)
    expect(hunks).toMatchObject([
      {
        stable: true,
        before: { first: 3, lines: 1 },
        after: { first: 3, lines: 1 },
        rejected: false,
      },
      { before: { first: 11 } },
      { before: { first: 19 } },
    ])
    const ids: string[] = hunks.map(({ id }: { id: string }) => id)
    const take = async (body: object, expected: string, restored: string) => {
      const [file] = (await reject(made, { paths: ['h.txt'], ...body })).json.files
      expect(file.state).toBe('waiting')
      // Meanwhile nothing else of this file is begun.
      const other = (await reject(made, { paths: ['h.txt'], hunks: [ids[2]] })).json.files[0]
      expect(other.operationId).toBe(file.operationId)
      await approve(made, file)
      const { id, body: order } = made.session.agent.commands('execute').at(-1) as never as {
        id: string
        body: { operation: { content: string; revert: object } }
      }
      expect(order.operation).toMatchObject({
        content: restored,
        revert: { expect: sha256(expected), restore: sha256(restored) },
      })
      made.session.agent.result(id, { ...report({ output: 'Restored' }) })
      await host().live()
    }
    const without = (...lines: number[]) =>
      numbered(
        Object.fromEntries(Object.entries(changed).filter(([n]) => !lines.includes(Number(n)))),
      )
    await take({ hunks: [ids[1]] }, numbered(changed), without(10))
    expect((await made.changes()).files[0]).toMatchObject({ decision: 'partly-rejected' })
    expect(
      (await host().ok('GET', at)).hunks.map((it: { rejected: boolean }) => it.rejected),
    ).toEqual([...[false, true, false]])
    const again = (await reject(made, { paths: ['h.txt'], hunks: [ids[1]] })).json.files[0]
    expect(again).toMatchObject({ state: 'applied' })
    await take({ hunks: [ids[0], ids[1]] }, without(10), without(2, 10))
    await take({}, without(2, 10), numbered())
    expect((await made.changes()).files[0]).toMatchObject({ decision: 'rejected' })
    expect((await reject(made, { paths: ['h.txt'], hunks: [ids[2]] })).json.files).toMatchObject([
      { state: 'applied' },
    ])
    expect(made.session.agent.commands('execute')).toHaveLength(3)
  })

  test('[CHG17] hunks that look alike, of a new file or of what is not proven are done by hand; unknown ones are refused', async () => {
    const part = ['a', 'b', 'c', '1', 'd', 'e', 'f']
    const twice = (mark: string) => [...part, ...part].join('\n').replaceAll('1', () => mark) + '\n'
    const alike: Step = {
      ...{ tool: 'write', path: 't.txt', exists: true, before: twice('1'), after: twice('2') },
      input: { filePath: 't.txt', content: twice('2') },
    }
    const create: Step = {
      ...{ tool: 'write', path: 'n.txt', exists: false, before: null, after: 'new\n' },
      input: { filePath: 'n.txt', content: 'new\n' },
    }
    const unproven: Step = {
      ...{ tool: 'edit', path: 'u.txt' },
      input: { filePath: 'u.txt', oldString: 'a', newString: 'b' },
    }
    const made = await scene([alike, create, unproven])
    const hunksOf = (path: string) =>
      host().ok('GET', `/v1/runs/${made.turn.runId}/changes/hunks?path=${path}`)
    const { hunks } = await hunksOf('t.txt')
    expect(hunks.map(({ stable }: { stable: boolean }) => stable)).toEqual([false, false])
    const rejectOf = async (path: string, id: string) =>
      (await reject(made, { paths: [path], hunks: [id] })).json
    expect((await rejectOf('t.txt', hunks[0].id)).files).toMatchObject([{ state: 'manual' }])
    expect(await hunksOf('n.txt')).toMatchObject({ rejectable: false, hunks: [] })
    expect((await hunksOf('u.txt')).reasons[0]).toContain('not proven')
    const unknown = `hnk_${'0'.repeat(40)}`
    for (const path of ['n.txt', 'u.txt'])
      expect((await rejectOf(path, unknown)).files).toMatchObject([{ state: 'manual' }])
    expect((await rejectOf('t.txt', unknown)).error.details[0].path).toBe('hunks')
    expect((await reject(made, { all: true, hunks: [unknown] })).status).toBe(400)
    const other = `/v1/runs/${made.turn.runId}/changes/hunks?path=other`
    expect(await host().refusal('GET', other)).toEqual([422, 'unprocessable'])
    expect(made.session.agent.commands('execute')).toEqual([])
  })

  test('[CHG12] accepting only records; a wrong name, no name and a direct revert are refused', async () => {
    const made = await scene()
    const { runId } = made.turn
    const path = `/v1/runs/${runId}/changes/accept`
    expect(await host().ok('POST', path, { paths: ['a.txt'] })).toEqual({ accepted: ['a.txt'] })
    await host().live()
    expect((await made.changes()).files[0]?.decision).toBe('accepted')
    expect(made.session.agent.commands('execute')).toEqual([])
    expect((await reject(made, { paths: ['other.txt'] })).json.error.details[0].path).toBe('paths')
    expect((await reject(made, {})).status).toBe(400)
    expect((await reject(made, { all: true, paths: ['a.txt'] })).status).toBe(400)
    const run = await host().ok('POST', `${made.session.at}/runs`, { intent: 'x' })
    const operation = {
      category: 'edit',
      operation: 'revert-file',
      targetPath: 'a.txt',
      revert: { expect: null, restore: null },
    }
    expect(await host().refusal('POST', `/v1/runs/${run.id}/operations`, { operation })).toEqual([
      422,
      'unprocessable',
    ])
  })
})

test('[CHG7] no text, snippet or prompt is in a log line, a diagnostic, a status or an error', async () => {
  const [text, snippet, prompt] = ['canary-of-texts', 'canary-of-snippets', 'canary-of-prompts']
  const session = await host().begin()
  const turn = await host().ok('POST', `${session.at}/prompts`, { text: prompt })
  await host().live()
  session.agent.result(turn.id, { sent: true, opencodeSessionId: 'ses_oc' })
  await host().live()
  const scene = new ChangeScene(session, turn, [
    edit('a.txt', `${text} ${snippet}\n`, snippet, 'moon'),
    {
      tool: 'edit',
      path: 'b.txt',
      input: { filePath: 'b.txt', oldString: snippet, newString: text },
    },
  ])
  await scene.tell()
  const bad = { ...scene.bundle(), files: [{ text }] }
  const refused = [
    await scene.post(bad),
    await scene.post({ ...scene.bundle(), version: text }),
    await host().call('POST', '/v1/evidence/evaluate', { name: text, parts: snippet }),
    await host().call('POST', `/v1/runs/${turn.runId}/changes/import`, {
      changes: [{ event: text }],
    }),
    await host().call('POST', `/v1/runs/${turn.runId}/changes/reject`, { all: text }),
  ]
  await scene.backfill()
  await host().live()
  await scene.collect()
  const { collects, files } = await scene.changes()
  expect(files).toHaveLength(2)
  expect(collects.at(-1)?.diagnostics.length).toBeGreaterThan(0)
  const told = await session.events('changes.collected')
  const status = await host().ok('GET', '/v1/status')
  const seen = JSON.stringify([
    ...[host().app.logs, collects, told, status],
    refused.map((answer) => answer.text),
  ])
  for (const canary of [text, snippet, prompt]) expect(seen).not.toContain(canary)
})

test('[CHG8] switched off later, what was proven stays valid, and nothing new is', async () => {
  const scene = await ChangeScene.begin(host(), [cheer])
  await scene.tell()
  await scene.collect()
  const before = await scene.changes()
  await scene.backfill({ mode: 'off' })
  await host().live()
  await scene.collect(scene.bundle({ files: [], reads: [] }))
  const after = await scene.changes()
  expect(after.fingerprint).toBe(before.fingerprint)
  expect(after.files).toMatchObject([{ reviewable: true, rejectable: true }])
  const next = await ChangeScene.in(scene.session, [again])
  await next.tell()
  next.session.agent.fail(next.asked.id, 'Not now')
  await host().live()
  await next.backfill({ mode: 'off' })
  await host().live()
  await next.collect(next.bundle({ files: [], reads: [] }))
  expect((await next.changes()).files).toMatchObject([{ rejectable: false }])
})

test('[CHG10] another agent’s events have one fingerprint in every mode', async () => {
  const prints = new Set<string>()
  for (const mode of ['off', 'shadow', 'single-change', 'full'] as const) {
    const scene = await ChangeScene.begin(host(), [cheer])
    await scene.tell()
    scene.session.agent.fail(scene.asked.id, 'Not now')
    await host().live()
    const path = `/v1/runs/${scene.turn.runId}/changes/import`
    await host().ok('POST', path, { changes: [foreignChange(scene.turn.runId)] })
    await scene.backfill({ mode })
    await host().live()
    await scene.collect(mode === 'off' ? scene.bundle({ files: [], reads: [] }) : undefined)
    const { files } = await scene.changes()
    const foreign = files.find((file) => file.path === 'x.txt')
    const { event, reviewable, reasons } = foreign!.events[0]!
    prints.add(JSON.stringify([{ ...event, taskId: '' }, reviewable, reasons, foreign?.rejectable]))
  }
  expect(prints.size).toBe(1)
})

test('[CHG6] an export has every event as it is stored, and the texts', async () => {
  const scene = await ChangeScene.begin(host(), [cheer])
  await scene.tell()
  await scene.collect()
  const { files } = await scene.changes()
  const answer = await host().app.app.request(`/v1/runs/${scene.turn.runId}/bundle`, {
    headers: { authorization: `Bearer ${host().key}` },
  })
  expect(answer.status).toBe(200)
  const text = await answer.text()
  expect(text).toContain(files[0]?.events[0]?.hash)
  expect(text).toContain('hello moon')
})
