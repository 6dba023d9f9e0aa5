import { jitterFraction } from '../../actor/jitter.ts'
import type { Room } from '../../actor/room.ts'
import type { WebhookBody } from '../../../contract/webhook.ts'
import type { WebhookAnswer } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { fanOutDeliveries, hasNewDeliveries } from './deliveries.ts'
import { postError, signedPost } from '../../registry/webhooks/post.ts'
import {
  dropTargets,
  type DueDelivery,
  nextDueOfTarget,
  recordTargetAttempt,
  scheduleTarget,
} from './targets.ts'
import {
  findWebhookTarget,
  listWebhookSubscriptions,
  type WebhookTarget,
} from '../../registry/webhooks/webhooks.ts'

/** In one round: then the deadline comes again. */
const maxRound = 20

/**
 * Tells webhooks what happened. Each step is repeated until its commit: after a crash between sending and recording the
 * same delivery goes out again, under the same id. It throws while libSQL is away: the deadline comes again.
 */
export class Webhooks implements Room {
  readonly #kernel: SessionKernel

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  /** `webhook` finds out who wants what is new; `webhook:<id>` sends one of them what is due. */
  readonly deadlines = {
    webhook: (webhookId: string) => (webhookId === '' ? this.#fanOut() : this.#sendDue(webhookId)),
  }

  /** What is added while libSQL is asked goes along. */
  async #fanOut(): Promise<void> {
    const { ports } = this.#kernel
    const { organisationId, project } = this.#kernel.session()
    if (!hasNewDeliveries(ports.sql))
      return this.#kernel.commit((sql, now) => fanOutDeliveries(sql, now, []))
    const subscriptions = await listWebhookSubscriptions(ports.db(), organisationId, project)
    this.#kernel.commit((sql, now) => fanOutDeliveries(sql, now, subscriptions))
  }

  async #sendDue(webhookId: string): Promise<void> {
    const { organisationId } = this.#kernel.session()
    const db = this.#kernel.ports.db()
    const target = await findWebhookTarget(db, { organisationId, webhookId })
    if (!target) return this.#kernel.commit((sql, now) => dropTargets(sql, now, webhookId))
    await this.#kernel.openSecrets()
    await this.#sendRound(target)
    this.#kernel.commit((sql) => scheduleTarget(sql, webhookId))
  }

  async #sendRound(target: WebhookTarget): Promise<void> {
    const { sql, now } = this.#kernel.ports
    for (let sent = 0; sent < maxRound; sent++) {
      const due = nextDueOfTarget(sql, now(), target.id)
      if (!due) return
      const answer = await this.#send(target, due)
      this.#record(target.id, due, answer)
      // Where nobody answers, the rest of the round would only wait as long again.
      if (answer.status === null) return
    }
  }

  async #send(target: WebhookTarget, due: DueDelivery): Promise<WebhookAnswer> {
    const { crypto, now, webhooks, config } = this.#kernel.ports
    const secret = await crypto.unseal(target.sealedSecret).catch(() => null)
    if (secret === null) return { status: null, error: 'Cannot open the secret of this webhook' }
    // Once more, against what has become known since it was written.
    const body = JSON.stringify(withAddress(config.publicUrl, this.#kernel.hide(parsed(due))))
    return webhooks.post(signedPost(now(), { url: target.url, secret, deliveryId: due.id, body }))
  }

  #record(webhookId: string, due: DueDelivery, answer: WebhookAnswer): void {
    const { crypto, log } = this.#kernel.ports
    const failure = {
      webhookId,
      deliveryId: due.id,
      event: due.event,
      attempts: due.attempts + 1,
      error: postError(answer) ?? '',
    }
    const state = this.#kernel.commit((sql, now) => {
      const after = recordTargetAttempt(sql, now, {
        webhookId,
        due,
        answer,
        fraction: jitterFraction(crypto, 1),
      })
      if (after === 'failed') appendEvent(sql, now, 'webhook.failed', failure)
      return after
    })
    if (state === 'failed') log('warn', 'Gave up on a webhook delivery', failure)
  }
}

const parsed = ({ body }: DueDelivery) => JSON.parse(body) as WebhookBody

/** Where to answer: what is stored knows the path, the deployment knows its address. */
function withAddress(publicUrl: string, body: WebhookBody): WebhookBody {
  const { answer } = body.data as { answer?: { url?: string } | null }
  if (!answer?.url?.startsWith('/')) return body
  const url = publicUrl.replace(/\/$/, '') + answer.url
  return { ...body, data: { ...body.data, answer: { ...answer, url } } }
}
