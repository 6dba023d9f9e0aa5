// A run as one file that a stranger can check. `GET /v1/runs/:id/bundle` makes it, `npm run verify` reads it.
// The first line is a DSSE envelope with an in-toto statement. Each further line is a record, and a subject of that
// statement by the SHA-256 of its bytes. Whoever reads it hashes the lines as they stand and never prints them again.

import { z } from 'zod'
import { Sha256 } from './artifact.ts'
import { EvidencePath } from './evidence.ts'

/** Whoever reads a bundle refuses every other. */
export const exportVersion = 1
export const statementType = 'https://in-toto.io/Statement/v1'
export const predicateType = 'urn:gantry:run-bundle:v1'
export const excerptType = 'urn:gantry:run-excerpt:v1'
export const provenanceType = 'https://slsa.dev/provenance/v1'
export const payloadType = 'application/vnd.in-toto+json'

/** Above it the export is refused: ask for hashes only. */
export const maxExportBytes = 48 * 1024 * 1024

export const ExportQuery = z.object({
  format: z
    .enum(['bundle', 'excerpt', 'slsa', 'agent-trace', 'git-ai'])
    .default('bundle')
    .describe(
      'excerpt: what the bundle has of the file `path`, and nothing else; slsa: SLSA provenance v1; agent-trace: an Agent Trace 0.1 record; git-ai: the text of a note for refs/notes/ai',
    ),
  texts: z
    .enum(['full', 'hashes'])
    .default('full')
    .describe('Of a bundle: with the texts of changes, or only with their hashes'),
  path: z.string().min(1).max(4096).optional().describe('Of an excerpt: the file'),
})
export type ExportQuery = z.infer<typeof ExportQuery>

export const Envelope = z.strictObject({
  payloadType: z.literal(payloadType),
  payload: z.string(),
  signatures: z.array(z.strictObject({ keyid: z.string(), sig: z.string() })).length(1),
})
export type Envelope = z.infer<typeof Envelope>

const count = z.number().int().min(0)

export const ExportPredicate = z.object({
  formatVersion: z.literal(exportVersion),
  run: z.object({ id: z.string(), sessionId: z.string(), project: z.string(), status: z.string() }),
  head: z
    .object({ entries: count, hash: Sha256 })
    .describe('The last entry of the timeline, with their number: nothing can be cut off'),
  records: count.describe('Lines after the first'),
  root: Sha256.describe('Of these lines as a tree of hashes, RFC 6962'),
  texts: ExportQuery.shape.texts.unwrap(),
  policy: z.object({ name: z.string(), version: count, extends: z.string() }),
  versions: z.object({ gantry: z.string(), opencode: z.string() }),
  exportedAt: z.number(),
})
export type ExportPredicate = z.infer<typeof ExportPredicate>

const subjects = z
  .array(z.object({ name: z.string(), digest: z.object({ sha256: Sha256 }) }))
  .min(1)

export const Statement = z.object({
  _type: z.literal(statementType),
  subject: subjects,
  predicateType: z.literal(predicateType),
  predicate: ExportPredicate,
})
export type Statement = z.infer<typeof Statement>

export const ExcerptStatement = z.object({
  _type: z.literal(statementType),
  subject: subjects,
  predicateType: z.literal(excerptType),
  predicate: ExportPredicate.omit({ texts: true, policy: true }).extend({
    file: z.object({
      path: EvidencePath,
      lines: z
        .array(count)
        .min(1)
        .describe('The places of all records about it: none can be left out'),
    }),
  }),
})
export type ExcerptStatement = z.infer<typeof ExcerptStatement>

/** A line of the bundle, with the hashes beside its way to the root, the lowest first. */
export const ExcerptLine = z.strictObject({
  type: z.literal('shown'),
  index: count,
  path: z.array(Sha256).max(64),
  line: z.string(),
})
export type ExcerptLine = z.infer<typeof ExcerptLine>

export const ProvenanceStatement = z.object({
  _type: z.literal(statementType),
  subject: subjects,
  predicateType: z.literal(provenanceType),
  predicate: z.object({
    buildDefinition: z.object({
      buildType: z.literal('urn:gantry:agent-run:v1'),
      externalParameters: z.object({
        prompt: z.object({ sha256: Sha256 }),
        repository: z.object({ uri: z.string(), ref: z.string().nullable() }).nullable(),
        project: z.string(),
      }),
      resolvedDependencies: z.array(
        z.object({
          uri: z.string(),
          annotations: z.record(z.string(), z.union([z.string(), z.number()])),
        }),
      ),
    }),
    runDetails: z.object({
      builder: z.object({ id: z.string(), version: z.object({ gantry: z.string() }) }),
      metadata: z.object({
        invocationId: z.string(),
        startedOn: z.string().nullable(),
        finishedOn: z.string().nullable(),
      }),
    }),
  }),
})
export type ProvenanceStatement = z.infer<typeof ProvenanceStatement>

/** `data` and `event` are the stored bytes, as text: their hashes are over exactly these. */
export const ExportRecord = z.discriminatedUnion('type', [
  z.object({ type: z.literal('run'), run: z.unknown() }),
  z.object({
    type: z.literal('entry'),
    seq: count,
    at: z.number(),
    kind: z.string(),
    data: z.string(),
    previousHash: z.string(),
    hash: z.string(),
  }),
  z.object({ type: z.literal('approval'), approval: z.unknown() }),
  z.object({ type: z.literal('change'), eventId: z.string(), hash: z.string(), event: z.string() }),
  z.object({ type: z.literal('text'), sha256: Sha256, text: z.string() }),
])
export type ExportRecord = z.infer<typeof ExportRecord>

export const PublicKey = z.object({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string(),
  kid: z.string().describe('The RFC 7638 thumbprint'),
  use: z.literal('sig'),
  alg: z.literal('EdDSA'),
})
export type PublicKey = z.infer<typeof PublicKey>
export const PublicKeys = z.object({
  keys: z.array(PublicKey).describe('The first signs; older ones stay for what they have signed'),
})
export type PublicKeys = z.infer<typeof PublicKeys>
