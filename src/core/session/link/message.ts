import { canonicalJson } from '../../../contract/canonical.ts'
import { type AgentEvent, UpMessage } from '../../../contract/link.ts'
import { hashText } from '../../hash.ts'
import { withoutUnfitCallInput } from '../calls/answers.ts'
import type { Question } from '../gate/questions.ts'
import type { SessionKernel } from '../record/kernel.ts'

export type Received = Exclude<UpMessage, { t: 'ask' }> | Question

/** Deltas are left to `Deltas`, which sees across their borders. A number of the protocol is no secret's digits. */
function redactMessage(message: Received, kernel: SessionKernel): Received {
  // Questions are decided on and results go on working: what only looks like a key stays in them until they are kept.
  if (message.t !== 'events') return kernel.redact(message)
  const items = message.items.map((item) =>
    item.kind === 'message.delta' ? item : { ...item, data: shownData(item.data, kernel) },
  )
  return { ...message, items }
}

/** A diff is there to be applied. */
function shownData(data: AgentEvent['data'], kernel: SessionKernel): AgentEvent['data'] {
  const { diff, ...rest } = withoutUnfitCallInput(kernel.ports.tools, data)
  const shown = kernel.hide(rest)
  return diff === undefined ? shown : { ...shown, diff: kernel.redact(diff) }
}

/** What the sandbox sends is stored and shown only without the secrets it may hold. */
export function parseMessage(text: string, kernel: SessionKernel): Received | null {
  try {
    const { success, data } = UpMessage.safeParse(JSON.parse(text))
    if (!success) return null
    return redactMessage(data.t === 'ask' && isMisnamed(data) ? misnamed(data) : data, kernel)
  } catch {
    return null
  }
}

/** The hash names the input in approvals that are remembered. It is compared before secrets are taken out. */
const isMisnamed = ({ input, inputHash, shortened }: Question): boolean =>
  shortened !== true && hashText(canonicalJson(input ?? null)) !== inputHash

const misnamed = (question: Question): Question => ({ ...question, misnamed: true })
