import type { ChangeImport } from '../../../contract/change-ledger.ts'
import { acceptedProofs, type ChangeEvent, type ProvenChange } from '../../../contract/change.ts'
import { AppError } from '../../../contract/error.ts'
import { evidencePathOf } from '../../../contract/evidence-paths.ts'
import { exactDigest } from '../../evidence/texts/exact.ts'
import type { SessionKernel } from '../record/kernel.ts'

/** Events of other agents, as they are. What only the engine may say is not taken from a caller. */
export function checkEvidenceImport(
  kernel: SessionKernel,
  runId: string,
  { changes }: ChangeImport,
): ProvenChange[] {
  return changes.map((change, at) => {
    const refuse = (field: string, message: string): AppError =>
      new AppError('unprocessable', `Cannot import change ${at}: ${message}`, [
        { path: `changes.${at}.event.${field}`, message },
      ])
    const { event, beforeContent, afterContent } = change
    const claim = foreignClaim(event)
    if (claim) throw refuse(...claim)
    if (event.taskId !== runId) throw refuse('taskId', `It must be "${runId}"`)
    if (evidencePathOf(anywhere, event.relativePath) !== event.relativePath)
      throw refuse('relativePath', 'It must name a file below the workspace, with "/" and as it is')
    checkSide(event.before, beforeContent, (message) => refuse('before', message))
    checkSide(event.after, afterContent, (message) => refuse('after', message))
    return withoutSecrets(kernel, change)
  })
}

/** A relative name means the same in every workspace. */
const anywhere = { worktree: '/w', directory: '/w' }
const ownProofs: readonly string[] = acceptedProofs.filter((proof) => proof !== 'toolpart-chain')

/** As a reader sees it: without blanks, signs that are not shown, and other forms of the same letters. */
const lettersOf = (word: string) =>
  word
    .normalize('NFKC')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, '')

/** Letters of other alphabets that look like these would pass for them. */
const plain = /^[ -~]*$/

/** What only the engine says of OpenCode's changes, by which it would pass for one of them or hide one. */
function foreignClaim(event: ChangeEvent): [field: string, message: string] | null {
  const isOwn = (word: string | null) => word !== null && lettersOf(word).startsWith('opencode')
  const collected = "OpenCode's changes are collected from the sandbox"
  const names = [event.sourceProvider, event.source, event.sourceRuntime, event.snapshotSource]
  if (names.slice(0, 3).some(isOwn)) return ['sourceProvider', collected]
  if (names.some((name) => name !== null && !plain.test(name)))
    return ['sourceProvider', 'The names of its source may have only the signs of ASCII']
  if (isOwn(event.sourceImportKey)) return ['sourceImportKey', collected]
  if (/^evt_[0-9a-f]{40}$/.test(event.eventId))
    return ['eventId', 'It has the form of the ids that are given to changes of OpenCode']
  if (ownProofs.includes(event.evidenceProof))
    return ['evidenceProof', "It is a proof by OpenCode's snapshots"]
  if (isOwn(event.snapshotSource) || event.shapeFingerprint !== null)
    return ['snapshotSource', "It speaks of OpenCode's snapshots"]
  return null
}

function checkSide(
  ref: ChangeEvent['before'],
  content: string | null,
  refuse: (message: string) => AppError,
): void {
  if ((ref === null) !== (content === null))
    throw refuse('A reference needs its text, and a text its reference')
  if (ref === null || content === null) return
  const { sha256, sizeBytes } = exactDigest(content)
  if (ref.sha256 !== sha256) throw refuse('The hash is not that of the text')
  if (ref.sizeBytes !== sizeBytes) throw refuse('The size is not that of the text')
}

/** A text that holds a secret is not kept, and its side is not known any more. */
function withoutSecrets(kernel: SessionKernel, change: ProvenChange): ProvenChange {
  const { beforeContent, afterContent } = change
  const holds = (text: string | null) => text !== null && kernel.hide(text) !== text
  const gone = { exists: true, unavailableReason: 'secret-replaced' }
  return {
    beforeContent: holds(beforeContent) ? null : beforeContent,
    afterContent: holds(afterContent) ? null : afterContent,
    event: {
      ...kernel.hide(change.event),
      ...(holds(beforeContent) && { before: null, beforeState: gone }),
      ...(holds(afterContent) && { after: null, afterState: gone }),
    },
  }
}
