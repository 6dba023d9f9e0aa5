// What it takes to take a file back, or some hunks of it: which text must be there now and which is put in its place. The
// texts follow from the proven ones and from what was taken back before, so that a sequence of rejects has one meaning.

import type { FileHunks, FileReview, RejectedFile } from '../../../contract/change-ledger.ts'
import { AppError } from '../../../contract/error.ts'
import { exactDigest } from '../../evidence/texts/exact.ts'
import { hunksOf, type TextHunk, withoutHunks } from '../../evidence/texts/hunks.ts'
import type { TakenBack } from './decisions.ts'

/** Beside it in the message to the agent. */
export const maxTextBytes = 512 * 1024

export interface Taking {
  /** SHA-256; null: no file. */
  expect: string | null
  restore: string | null
  content: string | null
  /** Of a file that comes back where nothing is; one that is there keeps its own. */
  executable?: boolean
  /** Null: the whole file. */
  hunks: string[] | null
}

type Texts = ReadonlyMap<string, string>

/** What there is to say without doing anything, or what is to be done. */
export function takeBack(
  file: FileReview,
  asked: readonly string[] | undefined,
  before: TakenBack,
  texts: Texts,
): RejectedFile | Taking {
  if (!file.rejectable) return manual(file, file.reasons.join('. '))
  return asked === undefined ? takeWhole(file, before, texts) : takeSome(file, asked, before, texts)
}

export const isTaking = (plan: RejectedFile | Taking): plan is Taking => 'restore' in plan

const manual = ({ path }: FileReview, reason: string): RejectedFile => ({
  ...{ path, state: 'manual', reason, operationId: null, approvalId: null },
})

const missing = 'Its text is gone, or over 512 KiB: put it back by hand'
const underWay = 'Another reject of this file is under way'

function takeWhole(file: FileReview, { all, ...taken }: TakenBack, texts: Texts) {
  const { before, after } = file
  const own = all.findLast(({ file: each }) => each.state === 'applied' || each === taken.open)
  if (taken.open || taken.isWhole)
    return own?.hunks === null ? own.file : { ...(own?.file as RejectedFile), reason: underWay }
  if (before && !texts.has(before.sha256)) return manual(file, missing)
  const content = before && (texts.get(before.sha256) ?? null)
  const restore = before?.sha256 ?? null
  if (taken.applied.size === 0)
    return { expect: after?.sha256 ?? null, restore, content, ...modeOf(file), hunks: null }
  const now = textsOf(file, texts)
  if (now === null) return manual(file, missing)
  const left = withoutHunks(now.after, hunksIn(file, now), taken.applied)
  return { expect: exactDigest(left).sha256, restore, content, hunks: null }
}

const modeOf = ({ after, events }: FileReview): Pick<Taking, 'executable'> =>
  after === null && events.at(-1)?.event.beforeState.executable ? { executable: true } : {}

function takeSome(
  file: FileReview,
  asked: readonly string[],
  { all, applied, isWhole, open }: TakenBack,
  texts: Texts,
): RejectedFile | Taking {
  const now = textsOf(file, texts)
  if (now === null) return manual(file, whyNoHunks(file))
  const hunks = hunksIn(file, now)
  const wanted = asked.map((id) => hunks.find((hunk) => hunk.id === id) ?? refuse(id))
  if (!wanted.every(({ stable }) => stable))
    return manual(file, 'The same lines are there more than once: take it back by hand')
  const done = all.findLast(({ file: each }) => each.state === 'applied')?.file
  if (done && (isWhole || asked.every((id) => applied.has(id)))) return done
  if (open) return { ...open, reason: open.reason ?? underWay }
  const [left, content] = [applied, new Set([...applied, ...asked])].map((ids) =>
    withoutHunks(now.after, hunks, ids),
  ) as [string, string]
  const { sha256: restore, sizeBytes } = exactDigest(content)
  if (sizeBytes > maxTextBytes) return manual(file, missing)
  return { expect: exactDigest(left).sha256, restore, content, hunks: [...asked] }
}

function refuse(id: string): never {
  throw new AppError('unprocessable', `The file has no hunk "${id}"`, [
    { path: 'hunks', message: `"${id}" is not among the hunks of the file` },
  ])
}

const whyNoHunks = ({ before, after }: FileReview): string =>
  before && after ? missing : 'The whole file was made or deleted: it has no hunks'

interface Pair {
  before: string
  after: string
}

function textsOf({ before, after }: FileReview, texts: Texts): Pair | null {
  const [was, is] = [before && texts.get(before.sha256), after && texts.get(after.sha256)]
  return typeof was === 'string' && typeof is === 'string' ? { before: was, after: is } : null
}

const hunksIn = ({ path }: FileReview, { before, after }: Pair): TextHunk[] =>
  hunksOf(path, before, after)

/** For a reviewer. */
export function hunksToTakeBack(file: FileReview, taken: TakenBack, texts: Texts): FileHunks {
  const { path, rejectable } = file
  const pair = textsOf(file, texts)
  if (!rejectable || pair === null) {
    const reasons = rejectable ? [whyNoHunks(file)] : file.reasons
    return { path, rejectable: false, reasons, hunks: [] }
  }
  const side = ({ first, lines }: TextHunk['before']) => ({ first: first + 1, lines: lines.length })
  const hunks = hunksIn(file, pair).map(({ id, stable, before, after }) => ({
    ...{ id, stable },
    ...{ before: side(before), after: side(after) },
    rejected: taken.isWhole || taken.applied.has(id),
  }))
  return { path, rejectable, reasons: [], hunks }
}
