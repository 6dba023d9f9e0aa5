// Whether a tool's own input leads from one text to the other. Snapshots alone never prove a change: they show that a file
// changed, not that this tool part changed it so.

import type { ChangeOperation } from '../../contract/change.ts'
import type { DiagnosticCode } from '../../contract/evidence.ts'
import type { MutatingTool } from '../../contract/evidence-paths.ts'
import type { Anchor } from './anchors.ts'
import type { Candidate } from './candidate.ts'
import {
  applyPatchHunks,
  type MayCompare,
  type PatchAct,
  reversePatchHunks,
} from './texts/patch.ts'
import { exactOccurrences, replaceExact } from './texts/exact.ts'

/** What the tool was told to do to this path. */
export type Act =
  | { type: 'write'; content: string | null; existed: boolean | null }
  | { type: 'edit'; oldString: string; newString: string }
  | Exclude<PatchAct, { type: 'move' }>

export type ActReading = { ok: true; act: Act } | { ok: false; reason: DiagnosticCode }
const no = (reason: DiagnosticCode) => ({ ok: false, reason }) as const

export const readTransitionAct = (candidate: Candidate): ActReading =>
  readers[candidate.tool](candidate)

const readers: Record<MutatingTool, (candidate: Candidate) => ActReading> = {
  write: readWrite,
  edit: readEdit,
  apply_patch: readPatch,
}

/** A content that was cut is not compared: then only the snapshots speak. */
function readWrite({ part }: Candidate): ActReading {
  const content = part.input?.['content']
  const isCut = part.inputTruncated || part.metadata.truncated === true
  if (!isCut && content !== undefined && typeof content !== 'string') return no('malformed-row')
  const known = isCut || typeof content !== 'string' ? null : content
  return { ok: true, act: { type: 'write', content: known, existed: part.metadata.exists } }
}

function readEdit({ part: { input, inputTruncated } }: Candidate): ActReading {
  if (inputTruncated) return no('toolpart-truncated')
  const { oldString, newString, replaceAll } = input ?? {}
  if (replaceAll !== undefined && replaceAll !== false) return no('edit-replace-all')
  if (typeof oldString !== 'string' || typeof newString !== 'string') return no('edit-incomplete')
  if (oldString === '' || oldString === newString) return no('edit-incomplete')
  return { ok: true, act: { type: 'edit', oldString, newString } }
}

function readPatch({ part, path, patch }: Candidate): ActReading {
  if (part.inputTruncated) return no('toolpart-truncated')
  const acts = patch()
  if (!acts) return no('patch-unparsed')
  const own = acts.get(path ?? '') ?? []
  const [act] = own
  if (!act) return no('patch-unparsed')
  if (own.some(({ type }) => type === 'move')) return no('rename')
  if (own.length > 1 || act.type === 'move') return no('patch-ambiguous')
  return { ok: true, act }
}

export type Verdict =
  | { ok: true; operation: ChangeOperation; remark: DiagnosticCode | null }
  | { ok: false; reason: DiagnosticCode }

const yes = (operation: ChangeOperation, remark: DiagnosticCode | null = null): Verdict => ({
  ok: true,
  operation,
  remark,
})

/** One change alone between two trees. */
export function verifyTransition(act: Act, anchor: Anchor, mayCompare: MayCompare): Verdict {
  if (act.type === 'write') return verifyWrite(act, anchor)
  if (transitionOperation(anchor) !== intended[act.type]) return no('operation-mismatch')
  if (act.type === 'edit') return verifyEdit(act, anchor)
  if (act.type === 'update') return verifyUpdate(act, anchor, mayCompare)
  if (act.type === 'delete') return yes('delete')
  return anchor.after?.text === act.content ? yes('create') : no('toolpart-after-mismatch')
}

const intended: Record<Exclude<Act['type'], 'write'>, ChangeOperation> = {
  edit: 'modify',
  update: 'modify',
  add: 'create',
  delete: 'delete',
}

const transitionOperation = ({ before, after }: Anchor): ChangeOperation =>
  before === null ? 'create' : after === null ? 'delete' : 'modify'

function verifyWrite({ content, existed }: Act & { type: 'write' }, anchor: Anchor): Verdict {
  const { before, after } = anchor
  const operation = transitionOperation(anchor)
  // What the tool has seen itself must agree; if it has not said, the trees may tell that the file is new.
  if (operation === 'delete' || after === null) return no('operation-mismatch')
  if (existed !== null && existed !== (operation === 'modify')) return no('operation-mismatch')
  if (content !== null && content !== after.text) return no('toolpart-after-mismatch')
  if (before?.text === after.text) return no('unchanged')
  return yes(operation, content === null ? 'toolpart-truncated' : null)
}

function verifyEdit(
  { oldString, newString }: Act & { type: 'edit' },
  { before, after }: Anchor,
): Verdict {
  const text = before?.text ?? ''
  if (exactOccurrences(text, oldString) === 2) return no('edit-ambiguous')
  return replaceExact(text, oldString, newString) === after?.text
    ? yes('modify')
    : no('toolpart-after-mismatch')
}

function verifyUpdate(
  { hunks }: Act & { type: 'update' },
  { before, after }: Anchor,
  mayCompare: MayCompare,
): Verdict {
  const applied = applyPatchHunks(before?.text ?? '', hunks, mayCompare)
  if (applied === null) return no('patch-ambiguous')
  return applied === after?.text ? yes('modify') : no('toolpart-after-mismatch')
}

/** The text before this act, told from the text after it; null unless there is exactly one. */
export function reverseTransition(act: Act, after: string, mayCompare: MayCompare): string | null {
  if (act.type === 'update') return reversePatchHunks(after, act.hunks, mayCompare)
  if (act.type !== 'edit') return null
  const before = replaceExact(after, act.newString, act.oldString)
  return before !== null && replaceExact(before, act.oldString, act.newString) === after
    ? before
    : null
}

/** The text after this act, told from the text before it (null: no file); null unless there is exactly one. */
export function applyTransition(
  act: Act,
  before: string | null,
  mayCompare: MayCompare,
): string | null {
  if (act.type === 'write') return act.content
  if (act.type === 'add') return before === null ? act.content : null
  if (before === null || act.type === 'delete') return null
  return act.type === 'edit'
    ? replaceExact(before, act.oldString, act.newString)
    : applyPatchHunks(before, act.hunks, mayCompare)
}
