import type { WebhookAnswer, WebhookSender } from '../core/ports.ts'
import { isLoopbackWebhookTarget, webhookTargetRefusal } from './webhook-target.ts'

interface WebhookSenderOptions {
  /** Where the deployment itself is reached: only one on loopback may post to loopback. */
  publicUrl: string
}

export function createWebhookSender({ publicUrl }: WebhookSenderOptions): WebhookSender {
  const allowLoopback = isLoopbackWebhookTarget(new URL(publicUrl).hostname)
  const refusal = (url: string) => webhookTargetRefusal(url, allowLoopback)
  return {
    refusal,
    async post({ url, headers, body, timeoutMs }) {
      // Also here: an address may be older than the rule.
      const refused = refusal(url)
      if (refused !== null) return { status: null, error: `Address refused: ${refused}` }
      try {
        const answer = await fetch(url, {
          method: 'POST',
          headers,
          body,
          redirect: 'manual',
          signal: AbortSignal.timeout(timeoutMs),
        })
        void answer.body?.cancel().catch(() => {})
        return { status: answer.status }
      } catch (error) {
        return failureOf(error, timeoutMs)
      }
    },
  }
}

/** In our own words: the platform's contain the address, and with it whatever secret is in its path. */
function failureOf(error: unknown, timeoutMs: number): WebhookAnswer {
  const name = error instanceof Error ? error.name : ''
  const isLate = name === 'TimeoutError' || name === 'AbortError'
  return { status: null, error: isLate ? `No answer within ${timeoutMs} ms` : 'Cannot connect' }
}
