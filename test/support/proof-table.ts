// Every positive fixture has a twin that differs from it in one condition and is not proven. `rule` says which
// requirement the twin is for. The engine's own tests and those through HTTP both go through all of them.

import type { DiagnosticCode } from '../../src/contract/evidence.ts'
import { edit, file, type FixtureInput, patch, windowWith, write } from './proof-fixtures.ts'

export type Over = Partial<FixtureInput>
interface Twin {
  rule: string
  name: string
  over: Over
  reason: DiagnosticCode
}
interface Positive {
  name: string
  over: Over
  operation: 'create' | 'modify' | 'delete'
  proof?: string
  texts: [string | null, string | null]
  twins: Twin[]
}

const one = 'const value = 1\n'
const two = 'const value = 2\n'
const deletePatch = patch(['*** Delete File: src/app.ts'])
const updatePatch = patch(['*** Update File: src/app.ts', '@@', ' a', '-b', '+B', ' c'])
const updated = file('a\nb\nc\n', 'a\nB\nc\n')

export const positives: Positive[] = [
  {
    name: 'write-create-text',
    over: { parts: [write('new\n')], snapshotFiles: [file(null, 'new\n')] },
    operation: 'create',
    texts: [null, 'new\n'],
    twins: [
      {
        rule: 'R3-34',
        name: 'missing-before',
        over: { snapshotFiles: [file(undefined, 'new\n')] },
        reason: 'no-file-anchor',
      },
      {
        rule: 'R3-32',
        name: 'another content',
        over: { snapshotFiles: [file(null, 'new')] },
        reason: 'toolpart-after-mismatch',
      },
      {
        rule: 'R3-31',
        name: 'the tool saw a file',
        over: { parts: [write('new\n', { exists: true })] },
        reason: 'operation-mismatch',
      },
      {
        rule: 'R3-10',
        name: 'binary',
        over: { snapshotFiles: [file(null, 'new\n', { afterUnavailable: 'binary' })] },
        reason: 'binary',
      },
    ],
  },
  {
    name: 'write-create-empty',
    over: { parts: [write('')], snapshotFiles: [file(null, '')] },
    operation: 'create',
    texts: [null, ''],
    twins: [
      {
        rule: 'R3-09',
        name: 'no text is not the empty text',
        over: { snapshotFiles: [file(null, undefined)] },
        reason: 'no-file-anchor',
      },
    ],
  },
  {
    name: 'write-create-as-the-tool-says',
    over: { parts: [write('new\n', { exists: false })], snapshotFiles: [file(null, 'new\n')] },
    operation: 'create',
    texts: [null, 'new\n'],
    twins: [
      {
        rule: 'R3-31',
        name: 'the trees saw a file',
        over: { snapshotFiles: [file('old\n', 'new\n')] },
        reason: 'operation-mismatch',
      },
    ],
  },
  {
    name: 'write-create-without-a-first-tree',
    over: {
      parts: [write('new\n')],
      snapshotFiles: [file(null, 'new\n')],
      windows: [windowWith({ fromSnapshot: null })],
    },
    operation: 'create',
    texts: [null, 'new\n'],
    twins: [
      {
        rule: 'R3-27',
        name: 'a file was there',
        over: { snapshotFiles: [file('old\n', 'new\n')] },
        reason: 'incomplete-window',
      },
    ],
  },
  {
    name: 'write-modify-text',
    over: { parts: [write(two)], snapshotFiles: [file(one, two)] },
    operation: 'modify',
    texts: [one, two],
    twins: [
      {
        rule: 'R3-33',
        name: 'content differs',
        over: { parts: [write(`${two} `)] },
        reason: 'toolpart-after-mismatch',
      },
      {
        rule: 'R3-35',
        name: 'changes nothing',
        over: { snapshotFiles: [file(two, two)] },
        reason: 'unchanged',
      },
      {
        rule: 'R3-31',
        name: 'the file is gone afterwards',
        over: { snapshotFiles: [file(one, null)] },
        reason: 'operation-mismatch',
      },
      {
        rule: 'R3-31',
        name: 'the tool saw no file',
        over: { parts: [write(two, { exists: false })] },
        reason: 'operation-mismatch',
      },
      {
        rule: 'R3-42',
        name: 'its mode changed too',
        over: { snapshotFiles: [file(one, two, { afterMode: '100755' })] },
        reason: 'mode-change',
      },
    ],
  },
  {
    name: 'write-modify-to-empty',
    over: { parts: [write('')], snapshotFiles: [file(one, '')] },
    operation: 'modify',
    texts: [one, ''],
    twins: [
      {
        rule: 'R3-09',
        name: 'absent is not empty',
        over: { snapshotFiles: [file(one, null)] },
        reason: 'operation-mismatch',
      },
    ],
  },
  {
    name: 'write-without-content',
    over: { parts: [write(undefined)], snapshotFiles: [file(one, two)] },
    operation: 'modify',
    texts: [one, two],
    twins: [
      {
        rule: 'R3-33',
        name: 'another content',
        over: { parts: [write('x')] },
        reason: 'toolpart-after-mismatch',
      },
    ],
  },
  {
    name: 'write-truncated',
    over: { parts: [write('cut', { truncated: true })], snapshotFiles: [file(one, two)] },
    operation: 'modify',
    texts: [one, two],
    twins: [
      {
        rule: 'R3-36',
        name: 'whole, and another',
        over: { parts: [write('cut')] },
        reason: 'toolpart-after-mismatch',
      },
    ],
  },
  {
    name: 'edit-modify-once',
    over: {},
    operation: 'modify',
    texts: [one, two],
    twins: [
      {
        rule: 'R3-37',
        name: 'duplicate-old-string',
        over: { snapshotFiles: [file(one + one, two + one)] },
        reason: 'edit-ambiguous',
      },
      {
        rule: 'R3-37',
        name: 'another text afterwards',
        over: { snapshotFiles: [file(one, `${two}\n`)] },
        reason: 'toolpart-after-mismatch',
      },
      {
        rule: 'R3-37',
        name: 'the old string is not there',
        over: { snapshotFiles: [file('const x = 1\n', two)] },
        reason: 'toolpart-after-mismatch',
      },
      {
        rule: 'R3-43',
        name: 'another line end',
        over: { snapshotFiles: [file('const value = 1\r\n', two)] },
        reason: 'toolpart-after-mismatch',
      },
      {
        rule: 'R3-38',
        name: 'replace all',
        over: { parts: [edit({ replaceAll: true })] },
        reason: 'edit-replace-all',
      },
      {
        rule: 'R3-38',
        name: 'empty old string',
        over: { parts: [edit({ oldString: '' })] },
        reason: 'edit-incomplete',
      },
      {
        rule: 'R3-38',
        name: 'missing new string',
        over: { parts: [omit(edit(), 'newString')] },
        reason: 'edit-incomplete',
      },
      {
        rule: 'R3-38',
        name: 'missing old string',
        over: { parts: [omit(edit(), 'oldString')] },
        reason: 'edit-incomplete',
      },
      {
        rule: 'R3-38',
        name: 'equal strings',
        over: { parts: [edit({ newString: 'value = 1' })] },
        reason: 'edit-incomplete',
      },
      {
        rule: 'R3-36',
        name: 'its strings are cut',
        over: { parts: [edit({ truncated: true })] },
        reason: 'toolpart-truncated',
      },
      {
        rule: 'R3-31',
        name: 'an edit creates nothing',
        over: { snapshotFiles: [file(null, two)] },
        reason: 'operation-mismatch',
      },
      {
        rule: 'R3-31',
        name: 'an edit deletes nothing',
        over: { snapshotFiles: [file(one, null)] },
        reason: 'operation-mismatch',
      },
      {
        rule: 'R3-29',
        name: 'the path is not in the snapshots',
        over: { snapshotFiles: [file(one, two, { relativePath: 'src/App.ts' })] },
        reason: 'no-file-anchor',
      },
      {
        rule: 'R3-29',
        name: 'the path is there twice',
        over: { snapshotFiles: [file(one, two), file(one, two)] },
        reason: 'duplicate-anchor',
      },
      {
        rule: 'R3-64',
        name: 'missing-snapshot-object',
        over: { snapshotFiles: [file(one, two, { beforeUnavailable: 'object-missing' })] },
        reason: 'object-missing',
      },
      {
        rule: 'R3-08',
        name: 'a hash without its text',
        over: { snapshotFiles: [file(one, undefined)] },
        reason: 'no-file-anchor',
      },
      {
        rule: 'R3-04',
        name: 'compatible attribution',
        over: { attributionMode: 'compatible' },
        reason: 'strict-delivery-required',
      },
      {
        rule: 'R3-26',
        name: 'a window of another message',
        over: { windows: [windowWith({ messageId: 'message-2' })] },
        reason: 'no-window',
      },
      {
        rule: 'R3-25',
        name: 'toolpart-outside-window, before it',
        over: { windows: [windowWith({ startPartOrder: 1 })] },
        reason: 'no-window',
      },
      {
        rule: 'R3-25',
        name: 'toolpart-outside-window, after it',
        over: { windows: [windowWith({ finishPartOrder: 1 })] },
        reason: 'no-window',
      },
      {
        rule: 'R3-25',
        name: 'between two windows',
        over: {
          parts: [edit({ order: 5 })],
          windows: [
            windowWith({ finishPartOrder: 3 }),
            windowWith({ windowId: 'window-2', startPartOrder: 7 }),
          ],
        },
        reason: 'no-window',
      },
      {
        rule: 'R3-25',
        name: 'in two windows',
        over: { windows: [windowWith({}), windowWith({ windowId: 'window-2' })] },
        reason: 'ambiguous-window',
      },
      {
        rule: 'R3-25',
        name: 'in a nested window',
        over: {
          windows: [windowWith({}), windowWith({ windowId: 'window-2', finishPartOrder: 2 })],
        },
        reason: 'ambiguous-window',
      },
      {
        rule: 'R3-27',
        name: 'no tree afterwards',
        over: { windows: [windowWith({ toSnapshot: null }), other('window-2')] },
        reason: 'incomplete-window',
      },
      {
        rule: 'R3-27',
        name: 'an aborted step',
        over: { windows: [windowWith({ finishPartOrder: null })] },
        reason: 'incomplete-window',
      },
      {
        rule: 'R3-64',
        name: 'a read that took too long',
        over: { windows: [windowWith({ timedOut: true })] },
        reason: 'read-timeout',
      },
      {
        rule: 'R3-60',
        name: 'a read over 3000 ms',
        over: { windows: [windowWith({ readMs: 3001 })] },
        reason: 'read-timeout',
      },
      ...capabilityTwins(),
      {
        rule: 'R3-80',
        name: 'a path outside',
        over: { parts: [edit({ filePath: '/workspace2/src/app.ts' })] },
        reason: 'path-unsafe',
      },
      {
        rule: 'R3-80',
        name: 'a path that goes up',
        over: { parts: [edit({ filePath: '/workspace/x/../src/app.ts' })] },
        reason: 'path-unsafe',
      },
      {
        rule: 'R3-76',
        name: 'a path with a line feed',
        over: { parts: [edit({ filePath: '/workspace/src/a\npp.ts' })] },
        reason: 'path-unsafe',
      },
      {
        rule: 'R3-05',
        name: 'never seen on the link',
        over: { parts: [edit({ seen: false })] },
        reason: 'evidence-mismatch',
      },
      {
        rule: 'R3-25',
        name: 'a shell in the same window',
        over: { parts: [edit(), { partId: 'p2', messageId: 'message-1', order: 2, tool: 'bash' }] },
        reason: 'opaque-tool-in-window',
      },
      {
        rule: 'R3-25',
        name: 'a tool that is not modelled in the same window',
        over: {
          parts: [edit(), { partId: 'p2', messageId: 'message-1', order: 2, tool: 'mcp_x' }],
        },
        reason: 'opaque-tool-in-window',
      },
      {
        rule: 'R3-46',
        name: 'a failed edit of the same file beside it',
        over: { parts: [edit(), edit({ partId: 'p2', order: 2, status: 'error' })] },
        reason: 'opaque-tool-in-window',
      },
      {
        rule: 'R3-42',
        name: 'the path became a folder',
        over: {
          snapshotFiles: [file(one, two), file(null, 'x', { relativePath: 'src/app.ts/x.ts' })],
        },
        reason: 'path-is-folder',
      },
      {
        rule: 'R3-42',
        name: 'a case-only rename',
        over: { snapshotFiles: [file(one, two), file('x', null, { relativePath: 'src/App.ts' })] },
        reason: 'rename',
      },
    ],
  },
  {
    name: 'edit-deletes-a-string',
    over: { parts: [edit({ newString: '' })], snapshotFiles: [file(one, 'const \n')] },
    operation: 'modify',
    texts: [one, 'const \n'],
    twins: [
      {
        rule: 'R3-39',
        name: 'twice',
        over: { snapshotFiles: [file(one + one, `const \n${one}`)] },
        reason: 'edit-ambiguous',
      },
    ],
  },
  {
    name: 'edit-with-dollar-signs',
    over: {
      parts: [edit({ newString: '$& $$ $1' })],
      snapshotFiles: [file(one, 'const $& $$ $1\n')],
    },
    operation: 'modify',
    texts: [one, 'const $& $$ $1\n'],
    twins: [
      {
        rule: 'R3-37',
        name: 'expanded as a pattern would be',
        over: { snapshotFiles: [file(one, 'const value = 1 $ $1\n')] },
        reason: 'toolpart-after-mismatch',
      },
    ],
  },
  {
    name: 'edit-of-a-string-once',
    over: {
      parts: [edit({ oldString: 'aa', newString: 'b' })],
      snapshotFiles: [file('aa', 'b')],
    },
    operation: 'modify',
    texts: ['aa', 'b'],
    twins: [
      {
        rule: 'R3-38',
        name: 'overlapping places',
        over: { snapshotFiles: [file('aaa', 'ba')] },
        reason: 'edit-ambiguous',
      },
    ],
  },
  {
    name: 'edit-of-an-lfs-pointer',
    over: {
      parts: [edit({ oldString: 'oid sha256:1', newString: 'oid sha256:2' })],
      snapshotFiles: [file('version 1\noid sha256:1\n', 'version 1\noid sha256:2\n')],
    },
    operation: 'modify',
    texts: ['version 1\noid sha256:1\n', 'version 1\noid sha256:2\n'],
    twins: [
      {
        rule: 'R3-44',
        name: 'a submodule',
        over: { snapshotFiles: [file('x', 'y', { afterUnavailable: 'submodule' })] },
        reason: 'submodule',
      },
    ],
  },
  {
    name: 'delete-text',
    over: { parts: [deletePatch], snapshotFiles: [file(one, null)] },
    operation: 'delete',
    texts: [one, null],
    twins: [
      {
        rule: 'R3-40',
        name: 'still there',
        over: { snapshotFiles: [file(one, two)] },
        reason: 'operation-mismatch',
      },
      {
        rule: 'R3-40',
        name: 'the text before is not to be had',
        over: { snapshotFiles: [file(undefined, null)] },
        reason: 'no-file-anchor',
      },
    ],
  },
  {
    name: 'delete-empty',
    over: { parts: [deletePatch], snapshotFiles: [file('', null)] },
    operation: 'delete',
    texts: ['', null],
    twins: [
      {
        rule: 'R3-79',
        name: 'empty is not absent',
        over: { snapshotFiles: [file('', '')] },
        reason: 'operation-mismatch',
      },
    ],
  },
  {
    name: 'patch-add',
    over: {
      parts: [patch(['*** Add File: src/app.ts', '+a', '+b'])],
      snapshotFiles: [file(null, 'a\nb\n')],
    },
    operation: 'create',
    texts: [null, 'a\nb\n'],
    twins: [
      {
        rule: 'R3-31',
        name: 'a file was there',
        over: { snapshotFiles: [file('', 'a\nb\n')] },
        reason: 'operation-mismatch',
      },
      {
        rule: 'R3-41',
        name: 'another text',
        over: { snapshotFiles: [file(null, 'a\nb')] },
        reason: 'toolpart-after-mismatch',
      },
      {
        rule: 'R3-41',
        name: 'a line without its sign',
        over: { parts: [patch(['*** Add File: src/app.ts', '+a', 'b'])] },
        reason: 'patch-unparsed',
      },
    ],
  },
  {
    name: 'patch-update',
    over: { parts: [updatePatch], snapshotFiles: [updated] },
    operation: 'modify',
    texts: ['a\nb\nc\n', 'a\nB\nc\n'],
    twins: [
      {
        rule: 'R3-41',
        name: 'no hunks',
        over: { parts: [omit({ ...updatePatch, filePath: 'src/app.ts' }, 'patchText')] },
        reason: 'patch-unparsed',
      },
      {
        rule: 'R3-41',
        name: 'two places',
        over: { snapshotFiles: [file('a\nb\nc\na\nb\nc\n', 'a\nB\nc\na\nb\nc\n')] },
        reason: 'patch-ambiguous',
      },
      {
        rule: 'R3-41',
        name: 'another result',
        over: { snapshotFiles: [file('a\nb\nc\n', 'a\nB\nc')] },
        reason: 'toolpart-after-mismatch',
      },
      {
        rule: 'R3-43',
        name: 'another line end',
        over: { snapshotFiles: [file('a\r\nb\r\nc\r\n', 'a\nB\nc\n')] },
        reason: 'patch-ambiguous',
      },
      {
        rule: 'R3-41',
        name: 'context alone',
        over: { parts: [patch(['*** Update File: src/app.ts', '@@', ' a'])] },
        reason: 'patch-unparsed',
      },
      {
        rule: 'R3-41',
        name: 'a line that is not understood',
        over: { parts: [patch(['*** Update File: src/app.ts', '@@', '', '-b', '+B'])] },
        reason: 'patch-unparsed',
      },
      {
        rule: 'R3-42',
        name: 'a rename',
        over: {
          parts: [
            patch(['*** Update File: src/app.ts', '*** Move to: src/b.ts', '@@', '-b', '+B']),
          ],
        },
        reason: 'rename',
      },
      {
        rule: 'R3-41',
        name: 'deleted and made again in one patch',
        over: {
          parts: [patch(['*** Delete File: src/app.ts', '*** Add File: src/app.ts', '+a'])],
        },
        reason: 'patch-ambiguous',
      },
      {
        rule: 'R3-36',
        name: 'its text is cut',
        over: { parts: [{ ...updatePatch, truncated: true }] },
        reason: 'toolpart-truncated',
      },
    ],
  },
]

function omit<T extends object, K extends keyof T>(value: T, key: K): Omit<T, K> {
  const { [key]: _, ...rest } = value
  return rest
}
function other(windowId: string) {
  return windowWith({ windowId, messageId: 'message-2' })
}
function capabilityTwins(): Twin[] {
  const of = (
    name: string,
    capability: FixtureInput['capability'],
    reason: DiagnosticCode,
  ): Twin => ({ rule: 'R3-17', name, over: { capability }, reason })
  return [
    of('schema unsupported', { schemaSupported: false }, 'sqlite-schema-unsupported'),
    of('an unreadable write-ahead file', { historyReadable: false }, 'history-unreadable'),
    of('identity missing', { identity: false }, 'session-identity-missing'),
    of('workspace mismatch', { worktree: '/' }, 'workspace-mismatch'),
    of('store missing', { store: 'missing' }, 'snapshot-store-missing'),
    of('store unsupported', { store: 'unsupported' }, 'snapshot-store-unsupported'),
    of('store elsewhere', { store: 'misplaced' }, 'snapshot-store-misplaced'),
    of('unknown shape', { fingerprint: null }, 'unsupported-snapshot-shape'),
    of('the store has stopped', { frozen: true }, 'snapshot-frozen'),
    {
      rule: 'R3-17',
      name: 'no window at all',
      over: { windows: [] },
      reason: 'snapshot-window-missing',
    },
  ]
}
