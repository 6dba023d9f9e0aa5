import { describe, expect, test } from 'vitest'
import {
  EvidenceBundle,
  evidenceLimits,
  lowerEvidenceMode,
  parseEvidenceMode,
  proofModes,
  type EvidencePart,
} from '../../src/contract/evidence.ts'
import {
  evidencePathOf,
  touchedEvidencePaths,
  unresolvedEvidencePaths,
} from '../../src/contract/evidence-paths.ts'

const place = { worktree: '/work/repo', directory: '/work/repo/app' }

const part = (
  tool: string,
  input: Record<string, unknown>,
  metadata: Partial<EvidencePart['metadata']> = {},
): EvidencePart => ({
  id: 'prt_1',
  messageId: 'msg_1',
  sessionId: 'ses_1',
  order: 1,
  callId: 'call_1',
  tool,
  status: 'completed',
  input,
  inputTruncated: false,
  metadata: { exists: null, truncated: null, files: null, ...metadata },
  startedAt: 1,
  endedAt: 2,
})

const bundle: EvidenceBundle = {
  version: 1,
  capability: {
    schema: { supported: true, fingerprint: 'a' },
    writeAheadFile: 'read',
    session: { id: 'ses_1', projectId: 'p', ...place, vcs: 'git' },
    store: { state: 'found', fingerprint: 'b' },
    frozen: false,
    formatted: null,
  },
  messages: [],
  parts: [part('write', { filePath: 'a.ts', content: '' })],
  neighbours: [],
  windows: [],
  files: [],
  failures: [],
  reads: [],
}

describe('modes', () => {
  test.each([
    ['0', 'off'],
    ['off', 'off'],
    ['shadow', 'shadow'],
    ['single-change', 'single-change'],
    ['full', 'full'],
    ['FULL', 'shadow'],
    ['1', 'shadow'],
    ['', 'shadow'],
    [undefined, 'shadow'],
  ] as const)('[EVD1] %s is %s', (raw, mode) => {
    expect(parseEvidenceMode(raw)).toBe(mode)
  })

  test('[EVD1] of every two modes the lower one holds, whichever was asked for', () => {
    for (const [a, set] of proofModes.entries())
      for (const [b, asked] of proofModes.entries())
        expect(lowerEvidenceMode(set, asked)).toBe(proofModes[Math.min(a, b)])
    expect(lowerEvidenceMode('full', undefined)).toBe('full')
  })
})

describe('bundles', () => {
  test('[EVD2] the limits are those that nothing raises', () => {
    expect(evidenceLimits).toMatchObject({
      filesPerRead: 100,
      bytesPerFile: 1_048_576,
      bytesInTotal: 4_194_304,
      readMs: 3000,
      readsPerCollect: 10,
    })
  })

  test('[EVD2] an eleventh read is refused', () => {
    const read = { windowId: 'w', elapsedMs: 1, timedOut: false, bytes: 0 }
    const reads = (length: number) => ({ ...bundle, reads: Array.from({ length }, () => read) })
    expect(EvidenceBundle.safeParse(reads(10)).success).toBe(true)
    expect(EvidenceBundle.safeParse(reads(11)).success).toBe(false)
  })

  test('[EVD2] content of the disk has no way in', () => {
    const file = {
      windowId: 'w',
      from: null,
      to: null,
      path: 'a.ts',
      before: { state: 'absent', currentContent: 'x' },
      after: { state: 'unavailable', code: 'binary' },
      currentContent: 'x',
    }
    const parsed = EvidenceBundle.parse({ ...bundle, files: [file], disk: { 'a.ts': 'x' } })
    expect(JSON.stringify(parsed)).not.toMatch(/currentContent|disk/)
  })

  test('[EVD2] an unknown version, an unknown code and an unknown kind of file are refused', () => {
    expect(EvidenceBundle.safeParse(bundle).success).toBe(true)
    expect(EvidenceBundle.safeParse({ ...bundle, version: 2 }).success).toBe(false)
    const failure = { code: 'binary', windowId: null, path: null, partId: null }
    expect(EvidenceBundle.safeParse({ ...bundle, failures: [failure] }).success).toBe(true)
    const unknown = { ...failure, code: 'looks-fine' }
    expect(EvidenceBundle.safeParse({ ...bundle, failures: [unknown] }).success).toBe(false)
    const link = { state: 'text', text: 'a', sha256: 'a'.repeat(64), sizeBytes: 1, mode: '120000' }
    const file = { windowId: 'w', from: null, to: null, path: 'a', before: link, after: link }
    expect(EvidenceBundle.safeParse({ ...bundle, files: [file] }).success).toBe(false)
  })
})

describe('paths', () => {
  test.each([
    ['/work/repo/src/a.ts', 'src/a.ts'],
    ['src/a.ts', 'app/src/a.ts'],
    ['./a.ts', 'app/a.ts'],
    ['/work/repo//src/./a.ts', 'src/a.ts'],
    ['/work/repo/Ä.ts', 'Ä.ts'],
    ['/work/repo/A\u0308.ts', 'A\u0308.ts'],
    ['/work/repo', null],
    ['/work/repo2/a.ts', null],
    ['/work/REPO/a.ts', null],
    ['/etc/passwd', null],
    ['../a.ts', null],
    ['/work/repo/src/../a.ts', null],
    ['src\\a.ts', null],
    ['C:/work/repo/a.ts', null],
    ['//host/share/a.ts', null],
    ['a\n.ts', null],
    ['a\u0000.ts', null],
    ['\ud800.ts', null],
    ['', null],
  ])('[EVD3] %j is %j', (named, relative) => {
    expect(evidencePathOf(place, named)).toBe(relative)
  })

  test.each([
    ['C:\\Work\\src\\a.ts', 'src/a.ts'],
    ['c:/work/src/A.ts', 'src/A.ts'],
    ['src\\a.ts', 'src/a.ts'],
    ['D:\\Work\\a.ts', null],
    ['C:\\Work2\\a.ts', null],
    ['\\\\?\\C:\\Work\\a.ts', null],
    ['\\Work\\a.ts', null],
    ['C:a.ts', null],
    ['..\\a.ts', null],
  ])('[EVD3] below C:\\Work %j is %j', (named, relative) => {
    const windows = { worktree: 'C:\\Work', directory: 'C:\\Work' }
    expect(evidencePathOf(windows, named)).toBe(relative)
  })

  test('[EVD3] a patch touches what its result names, else what its headings name', () => {
    const patchText = '*** Begin Patch\n*** Add File: a.ts\n+x\n*** Delete File:/work/repo/b.ts\n'
    expect(touchedEvidencePaths(place, part('apply_patch', { patchText }))).toEqual([
      'app/a.ts',
      'b.ts',
    ])
    const files = [{ filePath: '/work/repo/c.ts', type: 'update' }]
    expect(touchedEvidencePaths(place, part('apply_patch', { patchText }, { files }))).toEqual([
      'c.ts',
    ])
    expect(touchedEvidencePaths(place, part('bash', { filePath: 'a.ts' }))).toEqual([])
  })
})

describe('what is read', () => {
  const create = part('write', { filePath: 'new.ts', content: '' }, { exists: false })
  const edit = part('edit', { filePath: 'a.ts', oldString: 'a', newString: 'b' })

  test('[EVD4] each path of a completed part once', () => {
    expect(unresolvedEvidencePaths(place, [edit, edit], [])).toEqual(['app/a.ts'])
    expect(unresolvedEvidencePaths(place, [{ ...edit, status: 'error' }], [])).toEqual([])
    expect(unresolvedEvidencePaths(place, [part('bash', { command: 'rm a.ts' })], [])).toEqual([])
  })

  test('[EVD4] a new file with its whole content needs no read', () => {
    expect(unresolvedEvidencePaths(place, [create], [])).toEqual([])
    expect(unresolvedEvidencePaths(place, [create], ['.go'])).toEqual([])
    for (const formatted of [null, ['.ts']])
      expect(unresolvedEvidencePaths(place, [create], formatted)).toEqual(['app/new.ts'])
    for (const almost of [
      { ...create, inputTruncated: true },
      { ...create, metadata: { ...create.metadata, truncated: true } },
      { ...create, metadata: { ...create.metadata, exists: null } },
      { ...create, metadata: { ...create.metadata, exists: true } },
      { ...create, input: { filePath: 'new.ts' } },
    ])
      expect(unresolvedEvidencePaths(place, [almost], [])).toEqual(['app/new.ts'])
    const then = part('edit', { filePath: 'new.ts', oldString: 'a', newString: 'b' })
    expect(unresolvedEvidencePaths(place, [create, then], [])).toEqual(['app/new.ts'])
  })
})
