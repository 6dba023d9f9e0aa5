import * as changeSchemas from '../../contract/change.ts'
import * as evidenceSchemas from '../../contract/evidence.ts'
import * as fixtureSchemas from '../../contract/proof-fixture.ts'
import { ProofEvaluation, SnapshotProofFixture } from '../../contract/proof-fixture.ts'
import { evaluateFixture } from '../../core/evidence/dry-run/evaluate.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'
import { ok, route } from '../kit/route.ts'

nameSchemas(changeSchemas, evidenceSchemas, fixtureSchemas)

const tag = 'evidence'

export const evidenceRoutes = [
  route({
    id: 'evaluateEvidence',
    method: 'post',
    path: '/v1/evidence/evaluate',
    summary: 'What the rules of change evidence say of a made-up delivery; nothing is stored',
    description:
      'The body has tool parts, windows and the files of their snapshots. What is on a disk now cannot be given as evidence: `currentContent` is named in the answer and never used.',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    body: SnapshotProofFixture,
    answers: ok(ProofEvaluation, 'Each decision with its reason, and the statistics'),
    refuses: [],
    answer: ({ deps, body }) => Promise.resolve(evaluateFixture(body, deps.config.proofMode)),
  }),
]
