// Checks an exported run without a database, a server or trust in whoever sent it. It says two things apart: whether the
// signature holds (these bytes are what a deployment with this key has signed), and whether the verdict holds (the chain
// is whole, every change is what the timeline has recorded, and its texts are what its proof says).

import { z } from 'zod'
import { acceptedProofs, ChangeEvent } from '../../src/contract/change.ts'
import {
  Envelope,
  ExcerptLine,
  ExcerptStatement,
  excerptType,
  ExportRecord,
  exportVersion,
  predicateType,
  ProvenanceStatement,
  provenanceType,
  type PublicKey,
  Statement,
} from '../../src/contract/export.ts'
import { isReviewSafe } from '../../src/core/evidence/safety.ts'
import { exactDigest } from '../../src/core/evidence/texts/exact.ts'
import { merkleLeaf, merkleRootFrom, MerkleTree } from '../../src/core/export/merkle.ts'
import { hashText } from '../../src/core/hash.ts'
import { TimelineChecker } from '../../src/core/session/runs/verify.ts'
import { bytesFromBase64, bytesToBase64 } from '../../src/adapters/base64.ts'
import { attestationBytes, attestationThumbprint } from '../../src/adapters/attestation-keys.ts'

export interface Verified {
  /** What was checked beside the signature: of a statement alone nothing more. */
  kind: 'bundle' | 'excerpt' | 'statement'
  /**
   * unchecked: no key was given. unknown-key: none of those that were given has signed it. unreadable: there is no
   * envelope whose signature could be checked.
   */
  signature: 'holds' | 'fails' | 'unknown-key' | 'unchecked' | 'unreadable'
  keyId: string | null
  /** The first thing that does not hold; null: the verdict holds. */
  problem: { line: number; what: string } | null
  run: string | null
  /** Of an excerpt: the one that it is about. */
  file: string | null
  counts: Record<string, number>
}

class Problem extends Error {
  readonly line: number
  constructor(line: number, what: string) {
    super(what)
    this.line = line
  }
}

export async function verifyBundle(
  file: string | Uint8Array,
  keys: readonly PublicKey[],
): Promise<Verified> {
  const result: Verified = {
    kind: 'bundle',
    signature: keys.length === 0 ? 'unchecked' : 'unreadable',
    keyId: null,
    problem: null,
    run: null,
    file: null,
    counts: {},
  }
  try {
    const lines = linesOf(typeof file === 'string' ? file : textOf(file))
    const envelope = readEnvelope(lines[0] ?? '')
    const payload = decode(envelope.payload)
    result.keyId = envelope.signatures[0]?.keyid ?? null
    result.signature = await checkSignature(envelope, payload, keys)
    const statement = readStatement(payload)
    result.kind = kinds[statement.predicateType]
    if (statement.predicateType === provenanceType)
      return provenanceResult(result, statement, lines)
    result.run = statement.predicate.run.id
    if (statement.predicateType === excerptType)
      return excerptResult(result, statement, lines.slice(1))
    const records = checkLines(statement, lines.slice(1))
    checkRoot(statement, lines.slice(1))
    for (const { type } of records) result.counts[type] = (result.counts[type] ?? 0) + 1
    checkTimeline(statement, records)
    checkChanges(statement.predicate.texts, records)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    result.problem = { line: error.line, what: error.message }
  }
  return result
}

export const holds = ({ signature, problem }: Verified): boolean =>
  signature === 'holds' && problem === null

const kinds = {
  [predicateType]: 'bundle',
  [excerptType]: 'excerpt',
  [provenanceType]: 'statement',
} as const

/** To the letter: bytes that are no text are not replaced, and a mark at the beginning is not left out. */
function textOf(file: Uint8Array): string {
  const decode = (bytes: Uint8Array) =>
    new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  try {
    return decode(file)
  } catch {
    throw new Problem(badLine(file, decode), 'Not UTF-8')
  }
}

function badLine(file: Uint8Array, decode: (bytes: Uint8Array) => string): number {
  let from = 0
  for (let line = 1; ; line += 1) {
    const feed = file.indexOf(10, from)
    const end = feed === -1 ? file.length : feed
    try {
      decode(file.subarray(from, end))
    } catch {
      return line
    }
    if (feed === -1) return line
    from = feed + 1
  }
}

function linesOf(text: string): string[] {
  const lines = text.split('\n')
  if (lines.pop() !== '')
    throw new Problem(lines.length + 1, 'The file is cut off: no line feed at its end')
  return lines
}

/** Printed anew it must be the same text, so that no byte of it is free. */
function readEnvelope(line: string): Envelope {
  const envelope = Envelope.safeParse(parse(line, 1)).data
  if (!envelope || JSON.stringify(envelope) !== line)
    throw new Problem(1, 'The first line is not a DSSE envelope with an in-toto statement')
  return envelope
}

function parse(text: string, line: number): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new Problem(line, 'Not JSON')
  }
}

function decode(base64: string): Uint8Array<ArrayBuffer> {
  try {
    const bytes = bytesFromBase64(base64)
    if (bytesToBase64(bytes) === base64) return bytes
  } catch {
    // Told below.
  }
  throw new Problem(1, 'The envelope has a value that is not base64')
}

async function checkSignature(
  { signatures }: Envelope,
  payload: Uint8Array<ArrayBuffer>,
  keys: readonly PublicKey[],
): Promise<Verified['signature']> {
  const [signature] = signatures
  if (keys.length === 0) return 'unchecked'
  const known = await keyById(keys, signature?.keyid ?? '')
  if (!known || !signature) return 'unknown-key'
  const { kty, crv, x } = known
  const key = await crypto.subtle.importKey('jwk', { kty, crv, x }, 'Ed25519', false, ['verify'])
  const isValid = await crypto.subtle.verify(
    'Ed25519',
    key,
    decode(signature.sig),
    attestationBytes(payload),
  )
  return isValid ? 'holds' : 'fails'
}

/** The id is computed: what a key set calls its keys does not count. */
async function keyById(keys: readonly PublicKey[], id: string): Promise<PublicKey | null> {
  for (const key of keys) if ((await attestationThumbprint(key)) === id) return key
  return null
}

type AnyStatement = Statement | ExcerptStatement | ProvenanceStatement

function readStatement(payload: Uint8Array): AnyStatement {
  const value = parse(new TextDecoder().decode(payload), 1) as Partial<Statement> | null
  const form = forms.find(({ type }) => type === (value?.predicateType as string))
  const isKnown = form?.type === provenanceType || value?.predicate?.formatVersion === exportVersion
  if (!form || !isKnown)
    throw new Problem(
      1,
      `Unknown format: this verifier reads "${predicateType}", version ${exportVersion}`,
    )
  const statement = form.schema.safeParse(value).data
  if (!statement) throw new Problem(1, 'The statement has not the form of its version')
  return statement
}

const forms = [
  { type: predicateType, schema: Statement },
  { type: excerptType, schema: ExcerptStatement },
  { type: provenanceType, schema: ProvenanceStatement },
]

/** Nothing but the statement: what it says is as good as its signature. */
function provenanceResult(
  result: Verified,
  { subject, predicate }: ProvenanceStatement,
  lines: readonly string[],
): Verified {
  if (lines.length > 1) throw new Problem(2, 'A line that was not signed')
  const run = predicate.runDetails.metadata.invocationId
  return { ...result, run, counts: { subject: subject.length } }
}

/** Each line is one of the signed ones, by its place and its path to the root. */
function excerptResult(
  result: Verified,
  { predicate, subject }: ExcerptStatement,
  lines: readonly string[],
): Verified {
  const { root, records: size, file } = predicate
  result.file = file.path
  if (subject[0]?.digest.sha256 !== root) throw new Problem(1, 'The root is not what was signed')
  const records = lines.map((line, at) => {
    const shown = ExcerptLine.safeParse(parse(line, at + 2)).data
    if (!shown) throw new Problem(at + 2, 'Not a line of an excerpt')
    if (shown.index !== file.lines[at] || JSON.stringify(shown) !== line)
      throw new Problem(at + 2, `${nameOf(shown.line)} is not in its place`)
    if (merkleRootFrom(merkleLeaf(shown.line), { ...shown, size }) !== root)
      throw new Problem(at + 2, `${nameOf(shown.line)} is not what was signed`)
    const record = ExportRecord.safeParse(parse(shown.line, at + 2)).data
    if (!record) throw new Problem(at + 2, 'A record of an unknown form')
    result.counts[record.type] = (result.counts[record.type] ?? 0) + 1
    return record
  })
  if (lines.length < file.lines.length)
    throw new Problem(
      lines.length + 2,
      `The file ends here, and ${file.lines.length} records were signed`,
    )
  checkChanges('full', records)
  return result
}

function checkRoot({ predicate }: Statement, lines: readonly string[]): void {
  if (new MerkleTree(lines).root !== predicate.root)
    throw new Problem(1, 'The root of the lines is not the one that was signed')
}

function checkLines({ subject, predicate }: Statement, lines: readonly string[]): ExportRecord[] {
  const signed = subject.slice(0, predicate.records).map(({ digest }) => digest.sha256)
  const records = lines.map((line, at) => {
    if (hashText(line) !== signed[at])
      throw new Problem(at + 2, `${nameOf(line)} is not what was signed`)
    const record = ExportRecord.safeParse(parse(line, at + 2)).data
    if (!record) throw new Problem(at + 2, 'A record of an unknown form')
    return record
  })
  if (records.length < predicate.records)
    throw new Problem(
      lines.length + 2,
      `The file ends here, and ${predicate.records} records were signed`,
    )
  return records
}

/** As well as it can be told of a line that may be anything. */
function nameOf(line: string): string {
  const [, type] = /^\{"type":"(\w+)"/.exec(line) ?? []
  if (type === 'entry') return `Timeline entry ${/"seq":(\d+)/.exec(line)?.[1] ?? '?'}`
  if (type === 'change') return `Change ${/"eventId":"(\w+)"/.exec(line)?.[1] ?? '?'}`
  return type === undefined ? 'The record' : `The record "${type}"`
}

function checkTimeline({ predicate }: Statement, records: readonly ExportRecord[]): void {
  const { run, head } = predicate
  const checker = new TimelineChecker(run.id, null)
  const lineOf = new Map<number, number>()
  let last: string | null = null
  for (const [at, record] of records.entries()) {
    if (record.type !== 'entry') continue
    const { previousHash: previous_hash, ...entry } = record
    lineOf.set(entry.seq, at + 2)
    checker.add({ ...entry, previous_hash })
    last = entry.hash
  }
  const { problems, entries } = checker.result(() => true)
  const [first] = problems
  if (first)
    throw new Problem(
      lineOf.get(first.seq ?? 0) ?? 1,
      `Timeline entry ${first.seq}: ${first.problem}`,
    )
  if (entries !== head.entries || (last !== null && last !== head.hash))
    throw new Problem(1, `The timeline does not end at its signed head, entry ${head.entries}`)
}

function checkChanges(
  withTexts: Statement['predicate']['texts'],
  records: readonly ExportRecord[],
): void {
  const recorded = recordedHashes(records)
  const texts = new Map<string, number>()
  for (const [at, record] of records.entries()) {
    if (record.type !== 'text') continue
    const { sha256, sizeBytes } = exactDigest(record.text)
    if (sha256 !== record.sha256) throw new Problem(at + 2, 'A text that has not its hash')
    texts.set(sha256, sizeBytes)
  }
  for (const [at, record] of records.entries()) {
    if (record.type !== 'change') continue
    const problem = changeProblem(record, recorded, withTexts === 'full' ? texts : null)
    if (problem) throw new Problem(at + 2, `Change ${record.eventId}: ${problem}`)
  }
  checkNoneIsGone(records)
  checkOrder(records)
}

/** The ledger beside the timeline is a table of its own: what was taken out of it has still its entry. */
function checkNoneIsGone(records: readonly ExportRecord[]): void {
  const here = new Set(records.flatMap((it) => (it.type === 'change' ? [it.eventId] : [])))
  for (const [at, record] of records.entries()) {
    const said = recordedChange(record)
    if (said && !here.has(said.eventId))
      throw new Problem(at + 2, `${nameOf(JSON.stringify(record))}: its change is not in the file`)
  }
}

/** What a file is in the end follows from the order of its changes; one that is there twice would count twice. */
function checkOrder(records: readonly ExportRecord[]): void {
  const said = records.flatMap((record) => recordedChange(record)?.eventId ?? [])
  let nth = 0
  for (const [at, record] of records.entries()) {
    if (record.type !== 'change') continue
    if (record.eventId !== said[nth])
      throw new Problem(at + 2, `${nameOf(JSON.stringify(record))} is not where it was recorded`)
    nth += 1
  }
}

const Recorded = z.object({ eventId: z.string(), hash: z.string() })

function safeParse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}

/** What the timeline says of each change. */
function recordedHashes(records: readonly ExportRecord[]): Map<string, string> {
  const hashes = new Map<string, string>()
  for (const record of records) {
    const said = recordedChange(record)
    if (said) hashes.set(said.eventId, said.hash)
  }
  return hashes
}

const recordedChange = (record: ExportRecord): z.infer<typeof Recorded> | undefined =>
  record.type === 'entry' && record.kind === 'change.recorded'
    ? Recorded.safeParse(safeParse(record.data)).data
    : undefined

function changeProblem(
  { eventId, hash, event: stored }: ExportRecord & { type: 'change' },
  recorded: ReadonlyMap<string, string>,
  texts: ReadonlyMap<string, number> | null,
): string | null {
  if (hashText(stored) !== hash) return 'its content is not what was hashed'
  if (recorded.get(eventId) !== hash) return 'the timeline has not recorded it so'
  const event = ChangeEvent.safeParse(safeParse(stored)).data
  if (!event) return 'it has not the form of an event'
  const isClaimed = (acceptedProofs as readonly string[]).includes(event.evidenceProof)
  const isReplaced = [event.beforeState, event.afterState].some(
    ({ unavailableReason }) => unavailableReason === 'secret-replaced',
  )
  if (isClaimed && !isReplaced && !isReviewSafe(event))
    return 'its proof and its two sides do not agree'
  for (const ref of [event.before, event.after])
    if (ref && texts && texts.get(ref.sha256) !== ref.sizeBytes)
      return 'one of its texts is not in the file'
  return null
}
