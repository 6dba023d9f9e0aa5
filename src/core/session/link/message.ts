import { type AgentEvent, UpMessage } from '../../../contract/link.ts'
import { withoutUnfitInput } from '../calls/answers.ts'
import type { SessionKernel } from '../record/kernel.ts'

/** Deltas are left to `Deltas`, which sees across their borders. A number of the protocol is no secret's digits. */
function redactMessage(message: UpMessage, kernel: SessionKernel): UpMessage {
  // Questions are decided on and results go on working: what only looks like a key stays in them until they are kept.
  if (message.t !== 'events') return kernel.redact(message)
  const items = message.items.map((item) =>
    item.kind === 'message.delta' ? item : { ...item, data: shownData(item.data, kernel) },
  )
  return { ...message, items }
}

/** A diff is there to be applied. */
function shownData(data: AgentEvent['data'], kernel: SessionKernel): AgentEvent['data'] {
  const { diff, ...rest } = withoutUnfitInput(kernel.ports.tools, data)
  const shown = kernel.hide(rest)
  return diff === undefined ? shown : { ...shown, diff: kernel.redact(diff) }
}

/** What the sandbox sends is stored and shown only without the secrets it may hold. */
export function parseMessage(text: string, kernel: SessionKernel): UpMessage | null {
  try {
    const parsed = UpMessage.safeParse(JSON.parse(text))
    return parsed.success ? redactMessage(parsed.data, kernel) : null
  } catch {
    return null
  }
}
