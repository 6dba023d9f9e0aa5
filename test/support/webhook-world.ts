import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import { createWebhookSender } from '../../src/adapters/webhook-sender.ts'
import { SessionId } from '../../src/contract/ids.ts'
import type { WebhookCreate } from '../../src/contract/webhook.ts'
import { nextDeadline, releaseTakenDeadlines } from '../../src/core/actor/deadlines.ts'
import { createOrganisation } from '../../src/core/registry/organisations.ts'
import { LedgerActor } from '../../src/core/ledger/ledger.ts'
import { unsentOutbox } from '../../src/core/actor/outbox.ts'
import type { Db, Sql, WebhookPost } from '../../src/core/ports.ts'
import { roomMeetings } from '../../src/core/actor/room.ts'
import { Alarm } from '../../src/core/actor/alarm.ts'
import { listEvents } from '../../src/core/session/log/events.ts'
import { SessionKernel } from '../../src/core/session/record/kernel.ts'
import type { SessionPorts } from '../../src/core/session/record/ports.ts'
import { addDelivery, type NewDelivery } from '../../src/core/session/webhooks/deliveries.ts'
import { Webhooks } from '../../src/core/session/webhooks/webhooks.ts'
import { insertWebhook } from '../../src/core/registry/webhooks/webhooks.ts'
import { secretKey } from './keys.ts'
import { memorySql } from './sql.ts'

/** One session that only tells webhooks: real tables, kernel, alarm, libSQL and posts; a clock that only tests move. */
export class WebhookWorld {
  now = 1_700_000_000_000
  /** A message for every log line. */
  readonly logs: string[] = []
  readonly posts: WebhookPost[] = []
  readonly crypto = createWebCrypto([secretKey('s')])
  readonly sql = memorySql()
  readonly project = 'shop'
  organisationId = ''
  dbAway = false
  /** Where a test has a silent endpoint, posts end sooner than after ten seconds. */
  patienceMs = 10_000
  /** Every database write from this one on fails, as if the process were gone; counted from the last restart. */
  dieAtCommit = Infinity
  #commits = 0
  readonly sessionId = SessionId.parse(`ses_${this.crypto.random(30)}`)
  readonly #db: () => Db
  readonly #sender = createWebhookSender({ publicUrl: 'http://127.0.0.1:1' })
  #kernel!: SessionKernel
  #alarm!: Alarm

  constructor(db: () => Db) {
    this.#db = db
  }

  async start(): Promise<this> {
    this.organisationId = await createOrganisation(this.#db(), this.crypto, this.now, 'test')
    this.restart()
    this.#kernel.createTables()
    this.sql.run(
      `insert into session (id, organisation_id, key_id, project, title, status, provider, sandbox_state, generation,
         model, gate, trust_project_config, marker_nonce, created_at)
       values (?, ?, 'key', ?, '', 'open', 'none', 'none', 1, 'scripted', '{}', 0, 'm', ?)`,
      this.sessionId,
      this.organisationId,
      this.project,
      this.now,
    )
    return this
  }

  /** A new instance over the same tables, as after a crash. */
  restart(): void {
    this.#commits = 0
    this.dieAtCommit = Infinity
    this.#kernel = new SessionKernel(this.#ports())
    const rooms = [new Webhooks(this.#kernel), { deadlines: { outbox: () => {} } }]
    this.#alarm = new Alarm(this.#kernel, roomMeetings(rooms))
    if (this.#kernel.created) releaseTakenDeadlines(this.sql, this.now, this.#kernel.instance)
  }

  #ports(): SessionPorts {
    const log: SessionPorts['log'] = (level, message, fields) =>
      void this.logs.push(`${level} ${message} ${JSON.stringify(fields)}`)
    return {
      sql: this.#mortalSql(),
      host: { arm: () => {}, watched: () => false, agentConnected: () => false },
      now: () => this.now,
      crypto: this.crypto,
      config: { publicUrl: 'http://127.0.0.1:1' },
      db: () => {
        if (this.dbAway)
          throw Object.assign(new Error('The database cannot be reached'), {
            code: 'storage_unavailable',
          })
        return this.#db()
      },
      webhooks: {
        refusal: (url: string) => this.#sender.refusal(url),
        post: (post: WebhookPost) => {
          this.posts.push(post)
          return this.#sender.post({ ...post, timeoutMs: this.patienceMs })
        },
      },
      log,
    } satisfies Partial<Record<keyof SessionPorts, unknown>> as unknown as SessionPorts
  }

  #mortalSql(): Sql {
    const { sql } = this
    return {
      run: (...statement) => sql.run(...statement),
      all: (...statement) => sql.all(...statement),
      transaction: (work) => {
        this.#commits += 1
        if (this.#commits >= this.dieAtCommit) throw new Error('The process is gone')
        return sql.transaction(work)
      },
    }
  }

  get died(): boolean {
    return this.#commits >= this.dieAtCommit
  }

  hook(url: string, more: Partial<WebhookCreate> = {}) {
    const input = { url, events: ['run.ended' as const], ...more }
    return insertWebhook(this.#db(), this.crypto, this.now, this.organisationId, input)
  }

  tell(more: Partial<NewDelivery> = {}): string {
    return this.#kernel.commit((sql, now) =>
      addDelivery(sql, now, { event: 'run.ended', data: { status: 'completed' }, ...more }),
    )
  }

  /** Moves the clock and runs the alarm as often as it is due on the way. */
  async pass(ms: number): Promise<void> {
    const until = this.now + ms
    for (let at = this.#nextWebhook(); at !== null && at <= until; at = this.#nextWebhook()) {
      this.now = Math.max(this.now, at)
      await this.#alarm.fired().catch(() => {})
      if (this.died) return
    }
    this.now = until
  }

  /** Fires the alarm without waiting for what it began. */
  fire(): Promise<void> {
    return this.#alarm.fired()
  }

  /** The outbox has a deadline too, which nobody meets here. */
  #nextWebhook(): number | null {
    this.sql.run(`delete from deadlines where name = 'outbox'`)
    return nextDeadline(this.sql)
  }

  events = () => listEvents(this.sql, 0, 500)

  targets() {
    return this.sql.all<{ webhook_id: string; attempts: number; next_at: number; state: string }>(
      'select webhook_id, attempts, next_at, state from delivery_targets order by delivery_id, webhook_id',
    )
  }

  /** Sends the outbox to libSQL and reads what it has become there. */
  async ledger(): Promise<Record<string, unknown>[]> {
    const ledger = new LedgerActor({
      sql: memorySql(),
      db: this.#db,
      now: () => this.now,
      log: () => {},
    })
    const { sessionId, organisationId } = this
    const rows = unsentOutbox(this.sql)
    await ledger.append({ sessionId, organisationId, after: 0, rows })
    return this.#db().all(
      `select webhook_id, id, event, run_id, state, attempts, last_status, error from webhook_deliveries
       where organisation_id = ? order by id, webhook_id`,
      organisationId,
    )
  }
}
