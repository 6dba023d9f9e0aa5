import { beforeEach, expect, test } from 'vitest'
import {
  maxArtifactBytes,
  maxArtifactFiles,
  maxArtifactTotalBytes,
  type ToolResult,
} from '../../../../src/contract/tool.ts'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller, testSessionId } from '../../../support/session.ts'

const hashOf = (n: number) => n.toString(16).padStart(64, '0')
const file = (n: number, size = 1) => ({
  ...{ path: `file-${n}`, size, sha256: hashOf(n), contentType: 'text/plain' },
})
let world: RunWorld
let uploaded: Map<string, number>
let holders: object[]
beforeEach(async () => {
  holders = []
  world = await new RunWorld(gatewayTools).begin()
  world.blobs = () => ({
    put: async () => {},
    putAll: async () => {},
    get: async () => null,
    hold: async ({ organisationId, sessionId }, hashes) => {
      holders.push({ organisationId, sessionId, hashes })
      return uploaded
    },
  })
})

/** The sandbox answers that it has collected these, and has uploaded them so long. */
async function verify(
  id: string,
  files: ReturnType<typeof file>[],
  args: Record<string, unknown> = {},
): Promise<ToolResult> {
  uploaded = new Map(files.map(({ sha256, size }) => [sha256, size]))
  const answer = world.call('verify', id, args)
  await world.settle()
  const command = world.commands().findLast(({ kind }) => kind === 'collect')
  await world.receive({ t: 'result', commandId: command?.id ?? '', ok: true, data: { files } })
  return JSON.parse((await answer).body) as ToolResult
}
const operationOf = async (toolCallId: string) =>
  (await world.actor.api.calls.list(testCaller, { limit: 50, after: null })).items.find(
    (call) => call.toolCallId === toolCallId,
  )?.operationId
const stored = async () =>
  (await world.actor.api.artifacts.list(testCaller, { limit: 200, after: null })).items

test('[CALL14] it asks for one folder, within the limits, and the answer names the place', async () => {
  const answer = await verify('a', [file(1), file(2, 5)])
  const operationId = await operationOf('a')
  expect(world.commands().findLast(({ kind }) => kind === 'collect')).toMatchObject({
    id: `${operationId}_collect_1`,
    body: {
      operationId,
      folder: '.proliferate/.verification',
      maxFiles: maxArtifactFiles,
      maxFileBytes: maxArtifactBytes,
      maxTotalBytes: maxArtifactTotalBytes,
    },
  })
  const prefix = `${testSessionId}/${operationId}`
  expect(answer).toEqual({
    success: true,
    result: JSON.stringify({ key: prefix }),
    data: { uploadedCount: 2, prefix },
  })
  const { organisationId } = testCaller
  const hashes = [hashOf(1), hashOf(2)]
  expect(holders).toEqual([{ organisationId, sessionId: testSessionId, hashes }])
  expect(await stored()).toMatchObject([
    { ...file(1), operationId, id: expect.stringMatching(/^art_\w{20}$/) },
    { ...file(2, 5), operationId },
  ])
})

test('[CALL14] a folder without files is a hint, and no failure', async () => {
  expect(await verify('a', [], { folder: 'shots' })).toEqual({
    success: true,
    result: 'No files in "shots": put the evidence there and call verify again',
    data: { uploadedCount: 0 },
  })
  expect(await stored()).toEqual([])
})

test('[CALL15] the limits hold whatever the sandbox says, and one more is too much', async () => {
  const many = Array.from({ length: maxArtifactFiles }, (_, n) => file(n))
  const full = Array.from({ length: 4 }, (_, n) => file(n, maxArtifactTotalBytes / 4))
  expect([await verify('a', many), await verify('b', full)]).toMatchObject([
    { success: true },
    { success: true },
  ])
  const before = await stored()
  const one = file(999)
  expect([await verify('c', [...many, one]), await verify('d', [...full, one])]).toEqual([
    { success: false, result: 'Too much evidence: 101 files, 101 bytes' },
    { success: false, result: `Too much evidence: 5 files, ${maxArtifactTotalBytes + 1} bytes` },
  ])
  expect(await stored()).toEqual(before)
})

test('[CALL15] a path that comes twice, or a file that was not uploaded whole, is refused', async () => {
  expect(await verify('a', [file(1), { ...file(2), path: 'file-1' }])).toEqual({
    success: false,
    result: 'The sandbox reported one path twice',
  })
  const answer = verify('b', [file(1), file(2, 7)])
  uploaded.set(hashOf(2), 6)
  expect(await answer).toEqual({ success: false, result: '"file-2" was not uploaded whole' })
  expect(await stored()).toEqual([])
})
