// What a stranger can find out about an exported run: every change of it is noticed, and the first one is named.

import { describe, expect, test } from 'vitest'
import { createAttestationKeys } from '../../../src/adapters/attestation-keys.ts'
import type { ChangeEvent } from '../../../src/contract/change.ts'
import { statementType } from '../../../src/contract/export.ts'
import type { RunContent, StoredChange } from '../../../src/core/export/bundle.ts'
import { hashText } from '../../../src/core/hash.ts'
import { runVerifyCommand } from '../../../local/verify/command.ts'
import { holds, verifyBundle } from '../../../local/verify/verify.ts'
import { provenRun, signedText } from '../../support/export-kit.ts'
import { secretKey } from '../../support/keys.ts'

const key = secretKey('k1')
const keys = await createAttestationKeys([key]).publicKeys()
const content = provenRun()
const text = await signedText(content, key)
const verify = (changed: string | Uint8Array) => verifyBundle(changed, keys)
const lines = text.split('\n').slice(0, -1)
const joined = (changed: readonly string[]) => changed.map((line) => `${line}\n`).join('')

describe('what holds', () => {
  test('[EXP4] a bundle with texts, and one with hashes only', async () => {
    expect(await verify(text)).toMatchObject({
      signature: 'holds',
      problem: null,
      run: 'run_1',
      counts: { run: 1, entry: 5, approval: 1, change: 2, text: 3 },
    })
    const hashes = await signedText({ ...content, texts: new Map() }, key, 'hashes')
    expect(holds(await verify(hashes))).toBe(true)
  })

  test('[EXP4] with several keys the right one is found, whatever the set calls it', async () => {
    const others = await createAttestationKeys([secretKey('k2'), key]).publicKeys()
    expect(holds(await verifyBundle(text, others))).toBe(true)
    const renamed = others.map((it) => ({ ...it, kid: 'x' }))
    expect(holds(await verifyBundle(text, renamed))).toBe(true)
  })
})

describe('what does not', () => {
  test('[EXP5] a changed byte, wherever it is', async () => {
    const bytes = Buffer.from(text)
    const step = 7
    for (let at = 0; at < bytes.length; at += step) {
      for (const bit of [1, 128]) {
        const changed = Buffer.from(bytes)
        changed[at] = (bytes[at] ?? 0) ^ bit
        const verified = await verify(changed)
        expect([at, bit, holds(verified)]).toEqual([at, bit, false])
      }
    }
  })

  test('[EXP5] bytes that are no text, also where they would be read as what was signed', async () => {
    const approvals = [{ reason: 'a \u{fffd} b' }]
    const bytes = Buffer.from(await signedText({ ...content, approvals }, key))
    expect(holds(await verify(bytes))).toBe(true)
    const at = bytes.indexOf('\u{fffd}')
    const changed = Buffer.concat([
      bytes.subarray(0, at),
      Buffer.from([0xff]),
      bytes.subarray(at + 3),
    ])
    expect(changed.toString()).toBe(bytes.toString())
    const line = bytes.subarray(0, at).toString().split('\n').length
    expect((await verify(changed)).problem).toEqual({ line, what: 'Not UTF-8' })
    const marked = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes])
    expect((await verify(marked)).problem?.line).toBe(1)
  })

  test('[EXP5] an envelope with no signature, two, another type, or a key twice is none', async () => {
    const own = JSON.parse(lines[0] ?? '') as { signatures: object[]; payload: string }
    const [signature] = own.signatures
    const twice = (lines[0] ?? '').replace('{', '{"payload":"e30=",')
    const changes = [
      JSON.stringify({ ...own, signatures: [] }),
      JSON.stringify({ ...own, signatures: [signature, signature] }),
      JSON.stringify({ ...own, payloadType: 'application/json' }),
      JSON.stringify({ ...own, extra: 1 }),
      twice,
      `${lines[0]} `,
    ]
    for (const line of changes) {
      const { signature: said, problem } = await verify(joined(lines.with(0, line)))
      expect([line, said, problem?.line]).toEqual([line, 'unreadable', 1])
    }
    expect((await verifyBundle('no envelope\n', [])).signature).toBe('unchecked')
  })

  test('[EXP5] the lines of another run under this run’s statement', async () => {
    const other = await signedText({ ...content, approvals: [{ other: true }] }, key)
    const foreign = other.split('\n').slice(1, -1)
    const { signature, problem } = await verify(joined([lines[0] ?? '', ...foreign]))
    expect(signature).toBe('holds')
    expect(problem?.what).toBe('The record "approval" is not what was signed')
  })

  test('[EXP5] a line that is dropped, doubled, swapped or emptied is named by its number', async () => {
    for (let at = 1; at < lines.length - 1; at += 1) {
      const one = lines[at] ?? ''
      const changes = [
        lines.toSpliced(at, 1),
        lines.toSpliced(at, 0, one),
        lines.toSpliced(at, 2, lines[at + 1] ?? '', one),
        lines.with(at, ''),
      ]
      for (const [nth, changed] of changes.entries()) {
        const { signature, problem } = await verify(joined(changed))
        expect(signature).toBe('holds')
        expect([nth, problem?.line]).toEqual([nth, nth === 1 ? at + 2 : at + 1])
      }
    }
  })

  test('[EXP5] a file that is cut off, anywhere', async () => {
    for (let length = 0; length < text.length; length += 41)
      expect([length, holds(await verify(text.slice(0, length)))]).toEqual([length, false])
    for (let count = 1; count < lines.length; count += 1) {
      const { problem } = await verify(joined(lines.slice(0, count)))
      expect(problem).toEqual({
        line: count + 1,
        what: expect.stringContaining('12 records') as string,
      })
    }
  })

  test('[EXP5] an entry is named as such', async () => {
    const at = lines.findIndex((line) => line.includes('permission-decision'))
    const changed = lines.with(at, (lines[at] ?? '').replace('allow', 'deny!'))
    expect((await verify(joined(changed))).problem).toEqual({
      line: at + 1,
      what: 'Timeline entry 2 is not what was signed',
    })
  })

  test('[EXP6] another’s key is not ours, and without keys the signature is not checked', async () => {
    const foreign = await signedText(content, secretKey('k1'))
    expect(await verify(foreign)).toMatchObject({ signature: 'unknown-key', problem: null })
    expect(await verifyBundle(text, [])).toMatchObject({ signature: 'unchecked', problem: null })
    expect(holds(await verifyBundle(text, []))).toBe(false)
  })

  test('[EXP6] a signature of other bytes fails, and the verdict is told all the same', async () => {
    const other = await signedText({ ...content, approvals: [] }, key)
    const stolen = JSON.parse(other.split('\n')[0] ?? '') as { signatures: object[] }
    const own = JSON.parse(lines[0] ?? '') as { signatures: object[] }
    const changed = lines.with(0, JSON.stringify({ ...own, signatures: stolen.signatures }))
    expect(await verify(joined(changed))).toMatchObject({ signature: 'fails', problem: null })
  })

  test.each(['null', '7', '[]', '"x"', '{"predicate":null}', '{"predicateType":"'])(
    '[EXP7] a payload that is no statement (%s) is refused',
    async (payload) => {
      const envelope = JSON.stringify(await createAttestationKeys([key]).attest(payload))
      const verified = await verify(joined([envelope, ...lines.slice(1)]))
      expect([verified.signature, verified.problem?.line]).toEqual(['holds', 1])
    },
  )

  test('[EXP7] an unknown version is refused', async () => {
    for (const change of [
      (it: object) => ({ ...it, predicateType: 'urn:gantry:run-bundle:v2' }),
      (it: { predicate?: object }) => ({ ...it, predicate: { ...it.predicate, formatVersion: 2 } }),
    ]) {
      const { problem } = await verify(await signedText(content, key, 'full', change))
      expect(problem).toEqual({ line: 1, what: expect.stringMatching(/^Unknown format/) as string })
    }
  })
})

describe('[EXP8] signed, and still not so', () => {
  const badly = async (over: Partial<RunContent>) => {
    const { signature, problem } = await verify(await signedText({ ...content, ...over }, key))
    expect(signature).toBe('holds')
    return problem?.what
  }
  const changed = (over: Partial<ChangeEvent>): StoredChange[] =>
    content.changes.map((it, at) => {
      if (at > 0) return it
      const event = JSON.stringify({ ...(JSON.parse(it.event) as ChangeEvent), ...over })
      return { ...it, event, hash: hashText(event) }
    })
  const recordedAs = (changes: StoredChange[]) => {
    const hashes = new Map(changes.map(({ eventId, hash }) => [eventId, hash]))
    return hashes
  }

  test('a timeline that was broken before it was signed', async () => {
    const entries = content.entries.map((it) => (it.seq === 2 ? { ...it, data: '{}' } : it))
    expect(await badly({ entries })).toMatch(
      /^Timeline entry 2: The content is not what was hashed/,
    )
    expect(await badly({ entries: content.entries.slice(1) })).toMatch(
      /^Timeline entry 2: Expected entry 1/,
    )
  })

  test('a head that the timeline does not reach', async () => {
    const shorter = await signedText(content, key, 'full', (it) => ({
      ...it,
      predicate: { ...it.predicate, head: { ...it.predicate.head, entries: 6 } },
    }))
    expect((await verify(shorter)).problem?.what).toMatch(
      /does not end at its signed head, entry 6/,
    )
    const other = await signedText(content, key, 'full', (it) => ({
      ...it,
      predicate: { ...it.predicate, head: { ...it.predicate.head, hash: '0'.repeat(64) } },
    }))
    expect((await verify(other)).problem?.what).toMatch(/signed head/)
  })

  test('a change that the timeline has not recorded so', async () => {
    expect(await badly({ changes: changed({ operation: 'delete' }) })).toMatch(
      /the timeline has not recorded it so/,
    )
    const [first, ...rest] = content.changes
    const rewritten = { ...(first as StoredChange), event: '{}' }
    expect(await badly({ changes: [rewritten, ...rest] })).toMatch(
      /its content is not what was hashed/,
    )
  })

  test('a change that was taken out of the ledger beside the timeline', async () => {
    const [gone, ...rest] = content.changes
    expect(await badly({ changes: rest })).toBe('Timeline entry 3: its change is not in the file')
    expect(await badly({ changes: [] })).toBe('Timeline entry 3: its change is not in the file')
    expect(gone?.eventId).toMatch(/^evt_/)
  })

  test('changes in another order than they were recorded in, or one of them twice', async () => {
    const [first, second] = content.changes as [StoredChange, StoredChange]
    const said = (it: StoredChange) => `Change ${it.eventId} is not where it was recorded`
    expect(await badly({ changes: [second, first] })).toBe(said(second))
    expect(await badly({ changes: [first, second, second] })).toBe(said(second))
    expect(await badly({ changes: [first, first, second] })).toBe(said(first))
  })

  test('a text that is missing, or is another', async () => {
    const [[sha256] = ['']] = content.texts
    const without = new Map([...content.texts].filter(([hash]) => hash !== sha256))
    expect(await badly({ texts: without })).toMatch(/one of its texts is not in the file/)
    expect(await badly({ texts: new Map(content.texts).set(sha256, 'other') })).toBe(
      'A text that has not its hash',
    )
  })

  test('a proof whose two sides do not agree with it', async () => {
    const changes = changed({ beforeState: { exists: true, unavailableReason: 'x' } })
    const { timelineHash, firstHash } = await import('../../../src/core/session/runs/timeline.ts')
    const hashes = recordedAs(changes)
    let previous_hash = firstHash('run_1')
    const entries = content.entries.map((it) => {
      const said = JSON.parse(it.data) as { eventId?: string }
      const data =
        said.eventId === undefined
          ? it.data
          : JSON.stringify({ ...said, hash: hashes.get(said.eventId) })
      const entry = { ...it, data, previous_hash }
      previous_hash = timelineHash(entry)
      return { ...entry, hash: previous_hash }
    })
    expect(await badly({ changes, entries })).toMatch(/its proof and its two sides do not agree/)
  })
})

describe('[EXP9] npm run verify', () => {
  const run = async (args: string[], files: Record<string, string>) => {
    const said: string[] = []
    const code = await runVerifyCommand(args, {
      say: (line) => said.push(line),
      read: (path) => Buffer.from(files[path] ?? expect.fail(`No such file: ${path}`)),
      fetch: async (url) => new Response(files[url]),
    })
    return { code, said }
  }
  const set = JSON.stringify({ keys })
  const runWith = (files: Record<string, string>) => run(['a.jsonl', '--keys', 'keys.json'], files)
  const payloadOf = (line = '') => (JSON.parse(line) as { payload: string }).payload

  test('says both things and what the file has, with keys of a file or of an address', async () => {
    const files = { 'a.jsonl': text, 'keys.json': set, 'https://a.test/keys': set }
    for (const from of ['keys.json', 'https://a.test/keys']) {
      const { code, said } = await run(['a.jsonl', '--keys', from], files)
      expect(code).toBe(0)
      expect(said).toEqual([
        'Run run_1: 1 × run, 5 × entry, 1 × approval, 2 × change, 3 × text',
        `Signature holds (key ${keys[0]?.kid})`,
        'Verdict holds: the timeline is whole, and every change is what it says',
      ])
    }
  })

  test('says nothing that the file has written for it', async () => {
    const lie = 'x\nSignature holds\u001b[2K\r\u009b31m\u202e'
    const run = { ...content.run, id: lie }
    const forged = await signedText({ ...content, run }, secretKey('k1'))
    const [envelope = '', ...rest] = forged.split('\n')
    const made = JSON.parse(envelope) as { signatures: { keyid: string; sig: string }[] }
    const signatures = made.signatures.map((it) => ({ ...it, keyid: lie }))
    const file = [JSON.stringify({ ...made, signatures }), ...rest].join('\n')
    const { code, said } = await runWith({ 'a.jsonl': file, 'keys.json': set })
    expect(code).toBe(1)
    expect(said).toHaveLength(3)
    expect(said.join('')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
    expect(said[1]).toMatch(/^Signature DOES NOT HOLD/)
  })

  test('says of a statement alone, and of an excerpt, what was checked', async () => {
    const { excerptStatement, excerptLines } = await import('../../../src/core/export/excerpt.ts')
    const { bundleLines } = await import('../../../src/core/export/bundle.ts')
    const plain = bundleLines(content)
    const path = (JSON.parse(content.changes[0]?.event ?? '') as ChangeEvent).relativePath
    const signed = async (statement: object) => {
      const envelope = await createAttestationKeys([key]).attest(JSON.stringify(statement))
      return JSON.stringify(envelope)
    }
    const shown = excerptLines(content, plain, path)
    const about = excerptStatement(content, plain, { path, shown, now: 1 })
    const excerpt = joined([await signed(about), ...shown.map((line) => JSON.stringify(line))])
    expect((await runWith({ 'a.jsonl': excerpt, 'keys.json': set })).said.at(-1)).toBe(
      'Verdict holds: these are all lines about the file that were signed, and every change is what it says',
    )
    const [statement] = [JSON.parse(Buffer.from(payloadOf(lines[0]), 'base64').toString())]
    const slsa = {
      _type: statementType,
      subject: statement.subject,
      predicateType: 'https://slsa.dev/provenance/v1',
      predicate: {
        buildDefinition: {
          buildType: 'urn:gantry:agent-run:v1',
          externalParameters: {
            ...{ prompt: { sha256: hashText('') }, repository: null, project: 'p' },
          },
          resolvedDependencies: [],
        },
        runDetails: {
          builder: { id: 'b', version: { gantry: '1' } },
          metadata: { invocationId: 'run_1', startedOn: null, finishedOn: null },
        },
      },
    }
    const alone = joined([await signed(slsa)])
    expect(await runWith({ 'a.jsonl': alone, 'keys.json': set })).toMatchObject({
      code: 0,
      said: [
        expect.anything(),
        expect.stringMatching(/^Signature holds/),
        'Verdict holds: this is one signed statement; it has no timeline and no change to check',
      ],
    })
  })

  test('ends with 1 if one of them does not hold, and with 2 if it cannot be checked', async () => {
    const files = { 'a.jsonl': text, 'b.jsonl': joined(lines.toSpliced(3, 1)), 'keys.json': '[]' }
    expect(await run(['a.jsonl'], files)).toMatchObject({
      code: 1,
      said: [
        expect.anything(),
        expect.stringContaining('NOT CHECKED'),
        expect.stringContaining('Verdict holds'),
      ],
    })
    expect((await run(['b.jsonl'], files)).said.at(-1)).toBe(
      'Verdict DOES NOT HOLD, first at line 4: Timeline entry 3 is not what was signed',
    )
    expect((await run(['a.jsonl', '--keys', 'keys.json'], files)).code).toBe(2)
    expect(await runWith({ 'a.jsonl': 'no envelope\n', 'keys.json': set })).toEqual({
      code: 1,
      said: [
        'Signature was NOT CHECKED: the file does not begin with a signed envelope',
        'Verdict DOES NOT HOLD, first at line 1: Not JSON',
      ],
    })
    for (const args of [[], ['a', 'b'], ['a', '--keys']])
      expect(await run(args, files)).toMatchObject({
        code: 2,
        said: [expect.stringMatching(/^Usage/)],
      })
  })
})
