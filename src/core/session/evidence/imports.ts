import type { ChangeImport } from '../../../contract/change-ledger.ts'
import type { ChangeEvent, ProvenChange } from '../../../contract/change.ts'
import { AppError } from '../../../contract/error.ts'
import { digestOf } from '../../evidence/texts/exact.ts'
import type { SessionKernel } from '../record/kernel.ts'

/** Events of other agents, as they are. What only the engine may say is not taken from a caller. */
export function checkImport(
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
    if (event.sourceProvider === 'opencode' || event.source.startsWith('opencode'))
      throw refuse('sourceProvider', "OpenCode's changes are collected from the sandbox")
    if (event.taskId !== runId) throw refuse('taskId', `It must be "${runId}"`)
    checkSide(event.before, beforeContent, (message) => refuse('before', message))
    checkSide(event.after, afterContent, (message) => refuse('after', message))
    return withoutSecrets(kernel, change)
  })
}

function checkSide(
  ref: ChangeEvent['before'],
  content: string | null,
  refuse: (message: string) => AppError,
): void {
  if ((ref === null) !== (content === null))
    throw refuse('A reference needs its text, and a text its reference')
  if (ref === null || content === null) return
  const { sha256, sizeBytes } = digestOf(content)
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
