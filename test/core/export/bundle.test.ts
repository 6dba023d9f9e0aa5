import { describe, expect, test } from 'vitest'
import type { ChangeEvent } from '../../../src/contract/change.ts'
import { maxExportBytes } from '../../../src/contract/export.ts'
import { bundleHead, bundleLines, bundleStatement } from '../../../src/core/export/bundle.ts'
import { excerptLines, excerptStatement } from '../../../src/core/export/excerpt.ts'
import { MerkleTree } from '../../../src/core/export/merkle.ts'
import { provenanceStatement } from '../../../src/core/export/provenance.ts'
import { hashText } from '../../../src/core/hash.ts'
import { provenRun } from '../../support/export-kit.ts'

const content = provenRun()
const lines = bundleLines(content)
const eventsOf = () => content.changes.map(({ event }) => JSON.parse(event) as ChangeEvent)
const changeOf = (event: object, eventId = 'evt_x') => {
  const stored = JSON.stringify(event)
  return { eventId, hash: hashText(stored), event: stored }
}

describe('a bundle', () => {
  test('[EXP1] has the run, its entries, approvals, changes and texts, in this order and one line each', () => {
    const records = lines.map((line) => JSON.parse(line) as { type: string })
    expect(records.map(({ type }) => type)).toEqual([
      ...['run', 'entry', 'entry', 'entry', 'entry', 'entry', 'approval', 'change', 'change'],
      ...['text', 'text', 'text'],
    ])
    const [entry] = content.entries
    expect(records[1]).toEqual({
      ...{ type: 'entry', seq: 1, at: 1000, kind: 'run.created', data: '{"intent":"x"}' },
      ...{ previousHash: entry?.previous_hash, hash: entry?.hash },
    })
    expect(records[7]).toEqual({ type: 'change', ...content.changes[0] })
  })

  test('[EXP1] names each line by its hash, the head, the number of lines, and each file as it was last proven', () => {
    const { subject, predicate } = bundleStatement(content, lines, { texts: 'full', now: 7 })
    expect(subject.slice(0, lines.length)).toEqual(
      lines.map((line, at) => ({ name: `line ${at + 2}`, digest: { sha256: hashText(line) } })),
    )
    expect(subject.slice(lines.length).map(({ name }) => name)).toEqual([
      'file src/app.ts',
      'file new.ts',
    ])
    expect(predicate).toMatchObject({
      ...{ records: lines.length, texts: 'full', exportedAt: 7, run: content.run },
      head: { entries: 5, hash: content.entries[4]?.hash },
      root: new MerkleTree(lines).root,
      policy: { name: 'sandbox-default', version: 2 },
    })
  })

  test('[EXP1] names no file that is deleted, and a later text in place of an earlier one', () => {
    const [first] = eventsOf()
    const later = { ...first, after: { ...first?.after, sha256: 'f'.repeat(64) } }
    const withChanges = (...changes: object[]) =>
      bundleStatement(
        { ...content, changes: [...content.changes, ...changes.map((it) => changeOf(it))] },
        lines,
        { texts: 'hashes', now: 7 },
      ).subject.slice(lines.length)
    expect(withChanges(later)[0]).toEqual({
      ...{ name: 'file src/app.ts', digest: { sha256: 'f'.repeat(64) } },
    })
    expect(withChanges({ ...first, after: null }).map(({ name }) => name)).toEqual(['file new.ts'])
  })

  test('[EXP1] of a run without entries has the hash of nothing as its head', () => {
    expect(bundleHead({ ...content, entries: [] })).toEqual({ entries: 0, hash: hashText('') })
  })

  test('[EXP1] that would be over 48 MiB is refused, and says what helps', () => {
    const room = maxExportBytes - lines.reduce((total, line) => total + line.length + 1, 0)
    const line = (text: string) => JSON.stringify({ type: 'text', sha256: 'x', text }).length + 1
    const texts = (more: number) =>
      new Map([...content.texts, ['x', 'x'.repeat(room - line('') + more)]])
    expect(bundleLines({ ...content, texts: texts(0) })).toHaveLength(lines.length + 1)
    expect(() => bundleLines({ ...content, texts: texts(1) })).toThrow(
      /more than 50331648 bytes. Ask with texts=hashes/,
    )
  })
})

describe('an excerpt', () => {
  test('[EXP12] has the changes of its file, what the timeline says of them, their texts, and nothing else', () => {
    const shown = excerptLines(content, lines, 'new.ts')
    const records = shown.map(({ line }) => JSON.parse(line) as Record<string, string>)
    expect(records.map(({ type }) => type)).toEqual(['entry', 'change', 'text'])
    expect(shown.every(({ index, line }) => lines[index] === line)).toBe(true)
    expect(JSON.stringify(records)).not.toContain('src/app.ts')
    const { predicate, subject } = excerptStatement(content, lines, {
      ...{ path: 'new.ts', shown, now: 7 },
    })
    expect(predicate.file).toEqual({ path: 'new.ts', lines: shown.map(({ index }) => index) })
    expect(subject).toEqual([{ name: 'run run_1', digest: { sha256: new MerkleTree(lines).root } }])
    expect(() => excerptLines(content, lines, 'src')).toThrow(/has not changed "src"/)
  })
})

describe('SLSA provenance', () => {
  const of = {
    ...{ intent: 'do it', model: 'anthropic/claude', agent: null, repository: null },
    ...{ createdAt: 0, completedAt: null },
  }
  test('[EXP13] says what went in: the prompt by its hash, the repository, policy, model, agent and OpenCode', () => {
    const repository = { url: 'https://git.example/x', ref: 'main' }
    const { predicate } = provenanceStatement(content, eventsOf(), {
      ...{ ...of, agent: 'lead', repository, completedAt: 1000 },
    })
    expect(predicate.buildDefinition).toMatchObject({
      externalParameters: {
        prompt: { sha256: hashText('do it') },
        repository: { uri: 'https://git.example/x', ref: 'main' },
        project: 'default',
      },
      resolvedDependencies: [
        {
          uri: 'urn:gantry:policy:sandbox-default',
          annotations: { version: 2, extends: 'none' },
        },
        { uri: 'urn:gantry:model:anthropic/claude' },
        { uri: 'urn:gantry:agent:lead' },
        { uri: expect.stringMatching(/^pkg:npm\/opencode-ai@\d/) as string },
      ],
    })
    expect(predicate.runDetails.metadata).toEqual({
      ...{ invocationId: 'run_1', startedOn: '1970-01-01T00:00:00.000Z' },
      finishedOn: '1970-01-01T00:00:01.000Z',
    })
    const without = provenanceStatement(content, eventsOf(), of).predicate
    expect(without.buildDefinition.resolvedDependencies).toHaveLength(3)
    expect(without.buildDefinition.externalParameters.repository).toBeNull()
    expect(without.runDetails.metadata.finishedOn).toBeNull()
  })

  test('[EXP13] names the files whose last change is proven, and not those that are gone or are not sure', () => {
    const [first, second] = eventsOf() as [ChangeEvent, ChangeEvent]
    const namesOf = (...events: ChangeEvent[]) =>
      provenanceStatement(content, events, of).subject.map(({ name }) => name)
    expect(namesOf(first, second)).toEqual(['run run_1', 'src/app.ts', 'new.ts'])
    const unsure = { ...first, evidenceProof: 'metadata-only-fallback' }
    expect(namesOf(first, second, unsure)).toEqual(['run run_1', 'new.ts'])
    expect(namesOf(unsure, second, first)).toEqual(['run run_1', 'src/app.ts', 'new.ts'])
    const gone: ChangeEvent = {
      ...{ ...first, operation: 'delete', after: null },
      ...{ afterState: { exists: false } },
    }
    expect(namesOf(first, gone)).toEqual(['run run_1'])
  })
})
