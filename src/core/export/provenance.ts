// The same facts as SLSA provenance v1, for tools that read it: which files a run has provably left, and what went into
// it. What was asked for is there by its hash.

import type { ChangeEvent } from '../../contract/change.ts'
import { type ProvenanceStatement, provenanceType, statementType } from '../../contract/export.ts'
import { opencodeVersion, version } from '../../contract/version.ts'
import { isReviewSafe } from '../evidence/safety.ts'
import { hashText } from '../hash.ts'
import { bundleHead, type RunContent } from './bundle.ts'

export interface Circumstances {
  intent: string
  model: string
  agent: string | null
  repository: { url: string; ref: string | null } | null
  createdAt: number
  completedAt: number | null
}

export function provenanceStatement(
  content: RunContent,
  events: readonly ChangeEvent[],
  of: Circumstances,
): ProvenanceStatement {
  const { run, policy } = content
  const time = (at: number | null) => (at === null ? null : new Date(at).toISOString())
  const { repository, agent } = of
  return {
    _type: statementType,
    subject: [
      { name: `run ${run.id}`, digest: { sha256: bundleHead(content).hash } },
      ...filesOf(events),
    ],
    predicateType: provenanceType,
    predicate: {
      buildDefinition: {
        buildType: 'urn:gantry:agent-run:v1',
        externalParameters: {
          prompt: { sha256: hashText(of.intent) },
          repository: repository && { uri: repository.url, ref: repository.ref },
          project: run.project,
        },
        resolvedDependencies: [
          {
            uri: `urn:gantry:policy:${policy.name}`,
            annotations: { version: policy.version, extends: policy.extends },
          },
          { uri: `urn:gantry:model:${of.model}`, annotations: {} },
          ...(agent === null ? [] : [{ uri: `urn:gantry:agent:${agent}`, annotations: {} }]),
          { uri: `pkg:npm/opencode-ai@${opencodeVersion}`, annotations: {} },
        ],
      },
      runDetails: {
        builder: { id: 'urn:gantry:control-plane', version: { gantry: version } },
        metadata: {
          invocationId: run.id,
          startedOn: time(of.createdAt),
          finishedOn: time(of.completedAt),
        },
      },
    },
  }
}

/** What each file was left as by its last change, if that is proven. */
function filesOf(events: readonly ChangeEvent[]): ProvenanceStatement['subject'] {
  const last = new Map(events.map((event) => [event.relativePath, event]))
  return [...last].flatMap(([path, event]) =>
    isReviewSafe(event) && event.after
      ? [{ name: path, digest: { sha256: event.after.sha256 } }]
      : [],
  )
}
