import { describe, expect, test } from 'vitest'
import type { RunChanges } from '../../../../src/contract/change-ledger.ts'
import type { ChangeEvent } from '../../../../src/contract/change.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

/** Of another agent: that is the short way to many of them. */
const event = (runId: string, n: number, change: Partial<ChangeEvent> = {}): ChangeEvent => ({
  ...{ schemaVersion: 1, eventId: `event ${n}`, taskId: runId, taskRef: runId },
  ...{ taskRefKind: 'canonical', phase: 'work', executionSeq: n, sessionId: 's', memberName: 'm' },
  ...{ toolUseId: `call ${n}`, source: 'codex_patch', operation: 'modify', confidence: 'low' },
  ...{ workspaceRoot: '/repo', filePath: 'x', relativePath: 'x', toolStatus: null },
  ...{ timestamp: '2026-01-01T00:00:00Z', before: null, after: null, relation: null },
  beforeState: { exists: n > 0, unavailableReason: 'unknown' },
  afterState: { exists: true, unavailableReason: 'unknown' },
  ...{ oldString: null, newString: null, linesAdded: null, linesRemoved: null },
  ...{ sourceRuntime: 'codex', sourceProvider: 'openai', sourceSessionId: null },
  ...{ sourcePartId: null, sourceMessageId: null, parentUserMessageId: null },
  ...{ attributionMethod: 'board-tool-call', sourceImportKey: `key ${n}` },
  ...{ evidenceProof: 'codex-journal', snapshotId: null, snapshotSource: null },
  ...{ shapeFingerprint: null, supersedesEventId: null, warnings: [] },
  ...change,
})

interface Scene {
  page: (page?: { limit?: number; after?: number | null }) => Promise<RunChanges>
  /** How many stored events were read since it was asked last. */
  read: () => number
}

async function sceneOf(events: (runId: string) => ChangeEvent[]): Promise<Scene> {
  const world = await new RunWorld().begin()
  const { sql } = world
  const all = sql.all.bind(sql)
  let read = 0
  sql.all = <T extends object>(...query: Parameters<typeof all>) => {
    const rows = all<T>(...query)
    read += rows.filter((row) => 'event' in row).length
    return rows
  }
  const { runId } = await world.prompt()
  const { evidence } = world.actor.api
  const made = events(runId ?? '').map((each) => ({
    ...{ event: each, beforeContent: null, afterContent: null },
  }))
  for (let at = 0; at < made.length; at += 100)
    await evidence.importChanges(
      testCaller,
      runId ?? '',
      { changes: made.slice(at, at + 100) },
      null,
    )
  return {
    page: ({ limit = 100, after = null } = {}) =>
      evidence.list(testCaller, runId ?? '', { limit, after }),
    read: () => {
      const now = read
      read = 0
      return now
    },
  }
}

describe('a page of changes', () => {
  test('[CHG11] reads the events of its own files, and those of all others once for all pages', async () => {
    const { page, read } = await sceneOf((runId) =>
      Array.from({ length: 300 }, (_, n) => event(runId, n, { relativePath: `f${n % 100}` })),
    )
    read()
    const first = await page({ limit: 2 })
    expect(read()).toBeLessThanOrEqual(300 + 6)
    expect(first.files.map(({ path, events }) => [path, events.length])).toEqual([
      ['f0', 3],
      ['f1', 3],
    ])
    const second = await page({ limit: 2, after: Number(first.nextCursor) })
    expect(read()).toBe(6)
    expect(second.files.map(({ path }) => path)).toEqual(['f2', 'f3'])
    expect(second.warnings).toEqual(['300 changes of 100 files are not proven'])
    expect(second.fingerprint).toBe(first.fingerprint)
  })

  test('[CHG11] comes after the one before it, whatever was added to its files meanwhile', async () => {
    const seen: string[] = []
    const { page } = await sceneOf((runId) =>
      ['c', 'a', 'b', 'c', 'a'].map((relativePath, n) => event(runId, n, { relativePath })),
    )
    for (let after: number | null = null; ;) {
      const { files, nextCursor } = await page({ limit: 1, after })
      seen.push(...files.map(({ path }) => path))
      if (nextCursor === null) break
      after = Number(nextCursor)
    }
    expect(seen).toEqual(['c', 'a', 'b'])
    expect(await page({ after: 1000 })).toMatchObject({ files: [], nextCursor: null })
  })

  test('[CHG11] shows the newest events of a file that has more than an answer may hold, and is about all of them', async () => {
    const long = 'x'.repeat(50_000)
    const { page } = await sceneOf((runId) =>
      Array.from({ length: 40 }, (_, n) =>
        event(runId, n, {
          ...(n === 0 && { operation: 'create' as const, beforeState: { exists: false } }),
          ...{ oldString: long, evidenceProof: `journal ${n}`, warnings: [`${n}`] },
          ...{ beforeState: { exists: n > 0 }, afterState: { exists: true } },
        }),
      ),
    )
    const [file] = (await page()).files
    const { events = [], earlierEvents = 0, operation, rejectable, reasons } = file ?? {}
    expect([events.length + earlierEvents, earlierEvents > 15]).toEqual([40, true])
    expect(JSON.stringify(events).length).toBeLessThan(1024 * 1024)
    expect(events.at(-1)?.event.warnings).toEqual(['39'])
    expect([operation, rejectable]).toEqual(['create', false])
    expect(reasons).toContain('Its proof "journal 0" is not one that counts')
  })

  test('[CHG11] has at most two mebibytes of files, one at least, and at most fifty reasons of each', async () => {
    const long = 'x'.repeat(400_000)
    const { page } = await sceneOf((runId) => [
      ...Array.from({ length: 8 }, (_, n) =>
        event(runId, n, { relativePath: `f${n}`, newString: long }),
      ),
      ...Array.from({ length: 60 }, (_, n) =>
        event(runId, n + 8, {
          ...{ relativePath: 'many', evidenceProof: `journal ${n}` },
          ...{ beforeState: { exists: true }, afterState: { exists: true } },
        }),
      ),
      event(runId, 100, { relativePath: 'huge', newString: long.repeat(8) }),
    ])
    const first = await page()
    expect(first.files.map(({ path }) => path)).toEqual(['f0', 'f1', 'f2', 'f3', 'f4'])
    const second = await page({ after: Number(first.nextCursor) })
    expect(second.files.map(({ path }) => path)).toEqual(['f5', 'f6', 'f7', 'many'])
    expect(second.files[3]?.reasons).toHaveLength(50)
    const third = await page({ after: Number(second.nextCursor) })
    expect(third.files.map(({ path, events }) => [path, events.length])).toEqual([['huge', 1]])
    expect(third.nextCursor).toBeNull()
  })
})
