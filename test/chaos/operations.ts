import { setTimeout as sleep } from 'node:timers/promises'
import type { OperationRecord } from '../../src/contract/operation.ts'
import type { Answer, Client, Complain } from './client.ts'
import type { Random } from './random.ts'

/** One operation, however often it was sent. */
export interface Work {
  id: string
  label: string
}

export interface OperatorOptions {
  sessionId: string
  runId: string
  asker: Client
  /** Of somebody else. */
  approver: Client
  random: Random
  complain: Complain
}

const maxAttempts = 3
const settleMs = 90_000

/** Asks for operations, has them approved, resumes, retries and abandons them: every step several times at once. */
export class Operator {
  readonly works: Work[] = []
  readonly options: OperatorOptions

  constructor(options: OperatorOptions) {
    this.options = options
  }

  async run(going: () => boolean): Promise<void> {
    while (going()) {
      const record = await this.#begin()
      if (record) await this.#settle(record.id)
      await sleep(this.options.random.below(30))
    }
  }

  async #begin(): Promise<OperationRecord | null> {
    const { runId, asker, random, complain } = this.options
    const label = `work-${random.id(16)}`
    const target = { targetPath: label }
    const operation = random.chance(0.7)
      ? { ...target, category: 'edit', operation: 'write-file', content: 'x' }
      : { ...target, category: 'read', operation: 'read-file' }
    const post = () =>
      asker.json<OperationRecord>('POST', `/v1/runs/${runId}/operations`, { operation }, label)
    const [first, second] = await Promise.all([post(), post()])
    if (!first || first.id !== second?.id) {
      complain(`One key gave the operations ${first?.id} and ${second?.id}`)
      return null
    }
    this.works.push({ id: first.id, label })
    if (first.decision === 'ask') await this.#approve(first)
    return first
  }

  async #approve({ approvalId }: OperationRecord): Promise<void> {
    const { approver } = this.options
    const path = `/v1/approvals/${approvalId}`
    const vote = { resolution: 'approved' }
    await this.#once('resolve', 2, () => approver.send('POST', `${path}/resolve`, vote))
    await this.#once('resume', 3, () => this.options.asker.send('POST', `${path}/resume`))
  }

  /** At most one of them may be told that it did it; the answer to that one may be lost. */
  async #once(what: string, times: number, send: () => Promise<Answer>): Promise<void> {
    const { complain } = this.options
    const answers = await Promise.all(Array.from({ length: times }, send))
    const done = answers.filter(({ status }) => status < 300)
    if (done.length > 1) complain(`${what} was done ${done.length} times`)
    for (const { status, text } of answers)
      if (status >= 300 && status !== 409) complain(`${what}: ${status} ${text}`)
  }

  async #settle(id: string): Promise<void> {
    const { asker, complain } = this.options
    for (const startedAt = Date.now(); Date.now() - startedAt < settleMs;) {
      const record = await asker.json<OperationRecord>('GET', `/v1/operations/${id}?wait=2`)
      if (!record || (await this.#isSettled(record))) return
    }
    complain(`${id} has not settled`)
  }

  async #isSettled({ id, attempts }: OperationRecord): Promise<boolean> {
    const { asker, complain } = this.options
    const latest = attempts.at(-1)
    if (!latest) {
      complain(`${id} was allowed and has no attempt`)
      return true
    }
    const post = (path: string, body?: object) => () => asker.send('POST', `/v1/${path}`, body)
    if (latest.status === 'reserved') {
      const path = `attempts/${latest.id}`
      if (!latest.dispatched) await this.#once('execute', 2, post(`${path}/execute`))
      else if (latest.suspectSince !== null)
        await this.#once('abandon', 2, post(`${path}/abandon`, { reason: 'Nobody knows' }))
      return false
    }
    if (latest.status === 'succeeded' || attempts.length >= maxAttempts) return true
    const body = { policy: 'after-failure-or-abandoned' }
    await this.#once('retry', 3, post(`operations/${id}/retries`, body))
    return false
  }
}
