import { stringify } from 'yaml'
import type { FileReview } from '../../../contract/change-ledger.ts'
import { AppError } from '../../../contract/error.ts'
import type { EvalFromRun } from '../../../contract/eval-from-run.ts'
import { maxEvalFileBytes } from '../../../contract/eval-suite.ts'
import type { Run } from '../../../contract/run.ts'
import type { Session } from '../../../contract/session.ts'

/** What a run was asked, what it said at its end, and by which commands it was verified. */
export interface RunHistory {
  prompts: string[]
  answer: string | null
  commands: string[]
  /** What its workspace began at; null: nobody has told it. */
  commit: string | null
  /** Whether the session had done other work before. */
  isFirst: boolean
}

export interface CaseParts extends Pick<Session, 'repository' | 'configurationId'> {
  asked: EvalFromRun
  run: Run
  history: RunHistory
  files: readonly FileReview[]
  /** By hash; what is missing here is not written. */
  texts: ReadonlyMap<string, string>
}

// As many as an evaluator, a case or a file may have.
const maxGlobs = 100
const maxFileChecks = 25
const maxEqualsLength = 100_000
/** For texts of files: the rest is for messages. */
const maxTextsLength = maxEvalFileBytes / 4

/** One case in the documented form. What could not be brought into it is named in the notes. Pure. */
export function evalCaseFromRun(parts: CaseParts): { content: string; notes: string[] } {
  const { asked, run, history } = parts
  const notes: string[] = []
  if (run.status !== 'completed')
    notes.push(`The run ended as ${run.status}: look whether what it left is what you expect`)
  const messages = history.prompts.length > 0 ? history.prompts : [run.intent]
  const room = { left: maxTextsLength }
  const evaluators = evaluatorsOf(parts, room, notes)
  const workspace = workspaceOf(parts, room, notes)
  const answer = history.answer?.trim() || `What ${run.id} has done: ${run.status}`
  const content = stringify(
    {
      description: `From ${run.id}`,
      dataset: asked.dataset ?? run.project,
      evalcases: [
        {
          id: asked.caseId ?? run.id,
          expected_outcome: answer.slice(0, 10_000).toWellFormed(),
          input_messages: messages.map((text) => ({ role: 'user', content: text })),
          ...(Object.keys(workspace).length > 0 && { workspace }),
          ...(evaluators.length > 0 && { execution: { evaluators } }),
        },
      ],
    },
    { lineWidth: 0, aliasDuplicateObjects: false },
  )
  if (content.length > maxEvalFileBytes)
    throw new AppError(
      'too_large',
      `Cannot make a case of ${run.id}: with its prompts it is longer than the ${maxEvalFileBytes} characters of an eval file`,
    )
  if (evaluators.length === 0)
    notes.push('Nothing but the expected outcome scores it: a model judges. Add evaluators')
  return { content, notes }
}

interface Room {
  left: number
}

/** Null: it is not stored, too long, or has something secret. */
function textOf({ texts }: CaseParts, room: Room, link: FileReview['after']): string | null {
  const text = link && texts.get(link.sha256)
  if (typeof text !== 'string' || text.length > Math.min(room.left, maxEqualsLength)) return null
  room.left -= text.length
  return text
}

function evaluatorsOf(parts: CaseParts, room: Room, notes: string[]): object[] {
  const { asked, history, files } = parts
  const changed = files.filter(({ operation }) => operation !== 'none')
  const commands = [...new Set([...asked.commands, ...history.commands])].slice(0, 20)
  return [
    ...(asked.scope ? scopeOf(changed, notes) : []),
    ...(asked.files ? fileChecks(parts, changed, room, notes) : []),
    ...commands.map((command, at) => ({ name: `command-${at + 1}`, type: 'command', command })),
  ]
}

function scopeOf(changed: readonly FileReview[], notes: string[]): object[] {
  if (changed.length === 0) {
    notes.push('No change of the run is recorded: its final tree is not expected')
    return []
  }
  if (changed.length > maxGlobs) {
    notes.push(`The run changed ${changed.length} paths, more than ${maxGlobs}: add a diff_scope`)
    return []
  }
  const allow = changed.map(({ path }) => path)
  return [{ name: 'scope', type: 'diff_scope', allow, changes_required: true }]
}

function fileChecks(
  parts: CaseParts,
  changed: readonly FileReview[],
  room: Room,
  notes: string[],
): object[] {
  const left = changed.filter(({ operation }) => operation !== 'delete')
  if (left.length > maxFileChecks)
    notes.push(`Of ${left.length} changed files the first ${maxFileChecks} are expected`)
  return left.slice(0, maxFileChecks).flatMap(({ path, after }) => {
    const equals = textOf(parts, room, after)
    if (equals !== null) return [{ name: path.slice(-100), type: 'file_matches', path, equals }]
    notes.push(`The text of ${path} is not stored, too long or has something secret: not expected`)
    return []
  })
}

/** Files as they were where the run began, unless the repository has them so. */
function workspaceOf(parts: CaseParts, room: Room, notes: string[]): Record<string, unknown> {
  const { asked, repository, configurationId, history, files } = parts
  const workspace: Record<string, unknown> = {}
  if (repository !== null) {
    const commit = asked.commit ?? history.commit ?? repository.ref
    workspace['repository'] = { url: repository.url, ...(commit !== null && { commit }) }
    if (commit === null || !/^[0-9a-f]{40,64}$/.test(commit))
      notes.push(
        `The commit that the run began at is not recorded: name it as "commit", else the case follows ${commit ?? 'the default branch'}`,
      )
  } else if (configurationId !== null) workspace['configuration'] = configurationId
  if (repository !== null && history.isFirst) return workspace
  if (!history.isFirst)
    notes.push(
      'The session had worked before: what earlier runs changed and this one did not is not in the case, add it to files',
    )
  const before: Record<string, string> = {}
  for (const { path, before: link } of files) {
    if (link === null) continue
    const text = textOf(parts, room, link)
    if (text === null) notes.push(`${path} as it was before is not in the case: add it to files`)
    else before[path] = text
  }
  if (Object.keys(before).length > 0) workspace['files'] = before
  return workspace
}
