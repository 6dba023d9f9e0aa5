import { describe, expect, test } from 'vitest'
import type { ChangeEvent } from '../../../src/contract/change.ts'
import { authoredFiles } from '../../../src/core/export/authorship.ts'
import { agentTraceFormat, gitAiFormat } from '../../../src/core/export/formats.ts'
import { fixtureBundle, fixtureDelivery } from '../../../src/core/evidence/dry-run/fixture.ts'
import { proveChanges } from '../../../src/core/evidence/prove.ts'
import {
  edit,
  file,
  fixture,
  type FixtureInput,
  patch,
  windowWith,
  write,
} from '../../support/proof-fixtures.ts'

function proven(over: Partial<FixtureInput>) {
  const made = fixture(over)
  const { changes } = proveChanges({
    bundle: fixtureBundle(made),
    delivery: fixtureDelivery(made),
    mode: 'full',
  })
  const texts = new Map<string, string>()
  for (const { event, beforeContent, afterContent } of changes) {
    if (event.before && beforeContent !== null) texts.set(event.before.sha256, beforeContent)
    if (event.after && afterContent !== null) texts.set(event.after.sha256, afterContent)
  }
  return { events: changes.map(({ event }) => event), texts }
}
const rangesOf = (events: ChangeEvent[], texts: Map<string, string>) =>
  authoredFiles(events, texts).map(({ path, ranges }) => [path, ...[...ranges].flat(2)])

const windows = [
  windowWith({ finishPartOrder: 2 }),
  windowWith({ windowId: 'window-2', startPartOrder: 2, fromSnapshot: 'b', toSnapshot: 'c' }),
]
const second = edit({ partId: 'part-2', order: 3, oldString: 'b\n', newString: 'B\nB2\n' })
const two = {
  windows,
  parts: [edit({ oldString: 'd', newString: 'D' }), second],
  snapshotFiles: [
    file('a\nb\nc\nd\n', 'a\nb\nc\nD\n', { windowId: 'window-1' }),
    file('a\nb\nc\nD\n', 'a\nB\nB2\nc\nD\n', { windowId: 'window-2' }),
  ],
}

describe('proven lines', () => {
  test('[EXP10] an edit owns the lines that it changed, and a new file all of its lines', () => {
    const { events, texts } = proven({
      parts: [edit(), write('x\ny\n', { partId: 'p2', order: 2, filePath: 'n.ts' })],
      snapshotFiles: [
        file('a\nvalue = 1\nb\n', 'a\nvalue = 2\nb\n'),
        file(null, 'x\ny\n', { relativePath: 'n.ts' }),
      ],
    })
    expect(rangesOf(events, texts)).toEqual([
      ['src/app.ts', 'alice', { first: 2, last: 2 }],
      ['n.ts', 'alice', { first: 1, last: 2 }],
    ])
  })

  test('[EXP10] a later change moves what an earlier one has written', () => {
    const { events, texts } = proven(two)
    expect(rangesOf(events, texts)).toEqual([
      ['src/app.ts', 'alice', { first: 2, last: 3 }, { first: 5, last: 5 }],
    ])
  })

  test('[EXP10] after a gap nothing from before it is claimed', () => {
    const { events, texts } = proven(two)
    const [first, last] = events as [ChangeEvent, ChangeEvent]
    const unproven = { ...first, evidenceProof: 'metadata-only-fallback' }
    expect(rangesOf([first, unproven, last], texts)).toEqual([
      ['src/app.ts', 'alice', { first: 2, last: 3 }],
    ])
    expect(rangesOf([first, unproven], texts)).toEqual([['src/app.ts']])
    expect(rangesOf([first, last], new Map())).toEqual([['src/app.ts']])
  })
})

test('[EXP10] a file that was deleted has no lines, and one that is made again has its own', () => {
  const lines = ['*** Delete File: src/app.ts']
  const gone = proven({ parts: [patch(lines)], snapshotFiles: [file('a\nb\n', null)] })
  expect(gone.events).toMatchObject([{ operation: 'delete', evidenceProof: 'opencode-snapshot' }])
  expect(rangesOf(gone.events, gone.texts)).toEqual([['src/app.ts']])
  const again = proven({ parts: [write('c\n')], snapshotFiles: [file(null, 'c\n')] })
  const texts = new Map([...gone.texts, ...again.texts])
  expect(rangesOf([...gone.events, ...again.events], texts)).toEqual([
    ['src/app.ts', 'alice', { first: 1, last: 1 }],
  ])
})

describe('forms of others', () => {
  const written = () => {
    const { events, texts } = proven(two)
    const metadata = { ...(events[0] as ChangeEvent), relativePath: 'b c.ts', evidenceProof: 'x' }
    const files = authoredFiles([...events, metadata], texts)
    return { runId: 'run_1', sessionId: 'ses_1', model: 'anthropic/claude', at: 0, files }
  }

  test('[EXP10] Agent Trace: proven ranges are the model’s, the rest is unknown', () => {
    expect(agentTraceFormat(written())).toEqual({
      version: '0.1.0',
      id: expect.stringMatching(
        /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      ) as string,
      timestamp: '1970-01-01T00:00:00.000Z',
      tool: { name: 'gantry', version: expect.any(String) as string },
      files: [
        {
          path: 'src/app.ts',
          conversations: [
            {
              contributor: { type: 'ai', model_id: 'anthropic/claude' },
              ranges: [
                { start_line: 2, end_line: 3 },
                { start_line: 5, end_line: 5 },
              ],
            },
          ],
        },
        { path: 'b c.ts', conversations: [{ contributor: { type: 'unknown' }, ranges: [] }] },
      ],
      metadata: { 'dev.gantry': { runId: 'run_1', sessionId: 'ses_1' } },
    })
  })

  test.each([
    ['---', '"---"'],
    ['b c.ts', '"b c.ts"'],
    ['a-b.ts', 'a-b.ts'],
  ])('[EXP10] git-ai: the name %s cannot be taken for something else', (path, shown) => {
    const [first] = written().files
    const text = gitAiFormat({ ...written(), files: [{ ...first!, path }] })
    expect(text.split('\n')[0]).toBe(shown)
    expect(text.split('\n').filter((line) => line === '---')).toHaveLength(1)
  })

  test('[EXP10] git-ai: a file, its ranges by author, and what is known of the author', () => {
    const [attested = '', metadata = ''] = gitAiFormat(written()).split('---\n')
    const [, id] = /^src\/app\.ts\n {2}([0-9a-f]{16}) 2-3,5\n$/.exec(attested) ?? []
    expect(id).toBeDefined()
    expect(JSON.parse(metadata)).toMatchObject({
      schema_version: 'authorship/3.0.0',
      prompts: {
        [id ?? '']: {
          agent_id: { tool: 'opencode', model: 'anthropic/claude' },
          accepted_lines: 3,
        },
      },
    })
  })
})
