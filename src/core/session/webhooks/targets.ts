import type { DeliveryState, WebhookEvent } from '../../../contract/webhook.ts'
import { clearDeadline, ensureDeadline, hurryDeadline, setDeadline } from '../../actor/deadlines.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql, WebhookAnswer } from '../../ports.ts'
import { postError, isDelivered } from '../../registry/webhooks/post.ts'

// Rows of `delivery_targets`: one per delivery and webhook, each with its own attempts, so that a dead webhook holds up
// nobody else.

export const giveUpAfterMs = 24 * 60 * 60_000

const sendDeadline = (webhookId: string) => `webhook:${webhookId}` as const

/** Not set anew: while its work goes on, a deadline belongs to whoever is at it. */
export function wakeTarget(sql: Sql, name: string, now: number): void {
  ensureDeadline(sql, name, now)
  hurryDeadline(sql, name, now)
}

export function addTarget(sql: Sql, now: number, deliveryId: string, webhookId: string): void {
  sql.run(
    `insert into delivery_targets (delivery_id, webhook_id, state, next_at, updated_at)
     values (?, ?, 'pending', ?, ?)`,
    deliveryId,
    webhookId,
    now,
    now,
  )
  wakeTarget(sql, sendDeadline(webhookId), now)
  projectTarget(sql, now, deliveryId, webhookId)
}

export interface DueDelivery {
  id: string
  event: WebhookEvent
  body: string
  attempts: number
  createdAt: number
}

/** What has waited longest first. */
export function nextDueOfTarget(sql: Sql, now: number, webhookId: string): DueDelivery | null {
  const [due] = sql.all<DueDelivery>(
    `select d.id, d.event, d.body, t.attempts, d.created_at as createdAt
     from delivery_targets t join deliveries d on d.id = t.delivery_id
     where t.webhook_id = ? and t.state = 'pending' and t.next_at <= ? order by t.next_at, d.n limit 1`,
    webhookId,
    now,
  )
  return due ?? null
}

export interface Attempt {
  webhookId: string
  due: DueDelivery
  answer: WebhookAnswer
  /** From 0 to 1, for the time of the next one. */
  fraction: number
}

/** What the attempt has made of the delivery. */
export function recordTargetAttempt(
  sql: Sql,
  now: number,
  { webhookId, due, answer, fraction }: Attempt,
): DeliveryState {
  const attempts = due.attempts + 1
  const state = stateAfter(now, due, answer)
  sql.run(
    `update delivery_targets set state = ?, attempts = ?, next_at = ?, last_status = ?, error = ?, updated_at = ?
     where delivery_id = ? and webhook_id = ? and state = 'pending'`,
    state,
    attempts,
    Math.min(now + targetRetryMs(attempts, fraction), due.createdAt + giveUpAfterMs),
    answer.status,
    postError(answer),
    now,
    due.id,
    webhookId,
  )
  projectTarget(sql, now, due.id, webhookId)
  finishTargetDelivery(sql, due.id)
  return state
}

function stateAfter(now: number, { createdAt }: DueDelivery, answer: WebhookAnswer): DeliveryState {
  if (isDelivered(answer)) return 'delivered'
  return now >= createdAt + giveUpAfterMs ? 'failed' : 'pending'
}

/** 10 s, 20 s, 40 s … at most an hour; half of it by chance, so that many do not come back together. */
export function targetRetryMs(attempts: number, fraction: number): number {
  const longest = Math.min(3_600_000, 10_000 * 2 ** Math.min(attempts - 1, 20))
  return Math.round(longest / 2 + (longest / 2) * fraction)
}

/** The webhook is gone, and with it all that was on its way there. */
export function dropTargets(sql: Sql, now: number, webhookId: string): void {
  const pending = sql.all<{ id: string }>(
    `select delivery_id as id from delivery_targets where webhook_id = ? and state = 'pending'`,
    webhookId,
  )
  for (const { id } of pending) {
    sql.run(
      `update delivery_targets set state = 'dropped', error = 'The webhook was deleted', updated_at = ?
       where delivery_id = ? and webhook_id = ?`,
      now,
      id,
      webhookId,
    )
    projectTarget(sql, now, id, webhookId)
    finishTargetDelivery(sql, id)
  }
  clearDeadline(sql, sendDeadline(webhookId))
}

/** After a round: when this webhook's next delivery is due, if there is one. */
export function scheduleTarget(sql: Sql, webhookId: string): void {
  const [next] = sql.all<{ at: number | null }>(
    `select min(next_at) as at from delivery_targets where webhook_id = ? and state = 'pending'`,
    webhookId,
  )
  if (next?.at == null) clearDeadline(sql, sendDeadline(webhookId))
  else setDeadline(sql, sendDeadline(webhookId), next.at)
}

/** Once nobody waits for it the ledger has all that is worth knowing. The last row stays: numbers never start again. */
export function finishTargetDelivery(sql: Sql, id: string): void {
  const waiting = sql.all(
    `select 1 from delivery_targets where delivery_id = ? and state = 'pending' limit 1`,
    id,
  )
  if (waiting.length > 0) return
  sql.run('delete from delivery_targets where delivery_id = ?', id)
  sql.run(`update deliveries set state = 'done', body = '' where id = ?`, id)
  sql.run(`delete from deliveries where state = 'done' and n < (select max(n) from deliveries)`)
}

function projectTarget(sql: Sql, now: number, deliveryId: string, webhookId: string): void {
  const [row] = sql.all<object>(
    `select d.id, d.event, d.run_id as runId, d.created_at as createdAt, t.webhook_id as webhookId, t.state,
       t.attempts, t.last_status as lastStatus, t.error, t.updated_at as updatedAt
     from delivery_targets t join deliveries d on d.id = t.delivery_id
     where t.delivery_id = ? and t.webhook_id = ?`,
    deliveryId,
    webhookId,
  )
  if (row) addToOutbox(sql, now, 'webhook_delivery', row)
}
