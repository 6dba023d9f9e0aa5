import { SnapshotProofFixture } from '../../src/contract/proof-fixture.ts'
import type { z } from 'zod'

export type FixtureInput = z.input<typeof SnapshotProofFixture>
export type PartInput = FixtureInput['parts'][number]
export type FileInput = FixtureInput['snapshotFiles'][number]

export const editWarning =
  'OpenCode edit was captured without a proven full-text baseline; apply/reject is manual-only.'

const window = {
  messageId: 'message-1',
  windowId: 'window-1',
  fromSnapshot: 'snapshot-1',
  toSnapshot: 'snapshot-2',
  startPartOrder: 0,
  finishPartOrder: 9,
}

/** One part in one window: an edit that the snapshots prove. */
export const baseFixture: FixtureInput = {
  name: 'edit-modify-once',
  mode: 'full',
  attributionMode: 'strict-delivery',
  delivery: {
    teamName: 'team',
    taskId: 'task-1',
    memberName: 'alice',
    laneId: 'lane-1',
    sessionId: 'session-1',
    assistantMessageId: 'message-1',
  },
  windows: [window],
  parts: [edit()],
  snapshotFiles: [file('const value = 1\n', 'const value = 2\n')],
}

export function edit(over: Partial<PartInput> = {}): PartInput {
  return {
    ...part('edit'),
    oldString: 'value = 1',
    newString: 'value = 2',
    ...over,
  }
}
export function write(content: string | undefined, over: Partial<PartInput> = {}): PartInput {
  return { ...part('write'), ...(content === undefined ? {} : { content }), ...over }
}
export function patch(lines: string[], over: Partial<PartInput> = {}): PartInput {
  const patchText = ['*** Begin Patch', ...lines, '*** End Patch'].join('\n')
  const { filePath: _, ...rest } = part('apply_patch')
  return { ...rest, patchText, ...over }
}
function part(tool: string): PartInput {
  return {
    partId: 'part-1',
    messageId: 'message-1',
    order: 1,
    tool,
    filePath: '/workspace/src/app.ts',
  }
}

/** null: absent. undefined: it exists, and its text is not to be had. */
export function file(
  before: string | null | undefined,
  after: string | null | undefined,
  over: Partial<FileInput> = {},
): FileInput {
  return {
    relativePath: 'src/app.ts',
    beforeExists: before !== null,
    afterExists: after !== null,
    ...(typeof before === 'string' ? { beforeContent: before } : {}),
    ...(typeof after === 'string' ? { afterContent: after } : {}),
    ...over,
  }
}

export const windowWith = (over: Partial<FixtureInput['windows'][number]>) => ({
  ...window,
  ...over,
})

export const fixture = (over: Partial<FixtureInput> = {}): SnapshotProofFixture =>
  SnapshotProofFixture.parse({ ...baseFixture, ...over })
