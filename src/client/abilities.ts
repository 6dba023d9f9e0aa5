// Abilities by the typed client: those that are stored, and those that are at work. A plan or an execution that is asked for
// again after a lost answer is not begun twice. Programs reach it as `client.abilities`.

import type { z } from 'zod'
import { type AbilityCheck, AbilityChecked } from '../contract/ability.ts'
import { PinnedFolder } from '../contract/ability-folder.ts'
import {
  AbilityPlan,
  AbilityStatus,
  Execution,
  type ExecutionCreate,
  ExecutionRecord,
  type StepAnswer,
} from '../contract/execution.ts'
import { page } from '../contract/page.ts'
import { AbilityRow, StoredAbility } from '../contract/stored-ability.ts'
import { transportPause, type Transport } from './transport.ts'

/** As callers write it: what has a default may be left out. */
type Execute = z.input<typeof ExecutionCreate>
type Plan = Omit<Execute, 'ability' | 'planHash'>
type Scope = { project?: string }

const at = (name: string) => `/v1/abilities/${encodeURIComponent(name)}`

/** The deployment holds an answer for so long; then it is asked again. */
const waitSeconds = 30

export class Abilities {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** All of the organisation, or of one project, by name. */
  async *list(scope: Scope = {}): AsyncGenerator<AbilityRow, void> {
    for (let cursor: string | undefined; ;) {
      const query = { ...scope, cursor, limit: 100 }
      const schema = page(AbilityRow)
      const { items, nextCursor } = await this.#transport.ask({
        ...{ method: 'GET', path: '/v1/abilities', query, schema },
      })
      yield* items
      if (nextCursor === null) return
      cursor = nextCursor
    }
  }

  get(name: string, query: Scope & { version?: number } = {}): Promise<StoredAbility> {
    return this.#transport.ask({ method: 'GET', path: at(name), query, schema: StoredAbility })
  }

  /** Reads a file and names every mistake; stores nothing. */
  validate(body: AbilityCheck): Promise<AbilityChecked> {
    const path = '/v1/abilities/validate'
    return this.#transport.ask({ method: 'POST', path, body, schema: AbilityChecked })
  }

  /** What it would do in this session. */
  plan(sessionId: string, name: string, request: Plan = {}): Promise<AbilityPlan> {
    const body = { ...request, sessionId }
    return this.#transport.ask({
      method: 'POST',
      path: `${at(name)}/plan`,
      body,
      schema: AbilityPlan,
    })
  }

  /** Once, however often it is sent: without a key of yours it gets one. */
  execute(
    sessionId: string,
    body: Execute,
    { idempotencyKey = crypto.randomUUID() }: { idempotencyKey?: string } = {},
  ): Promise<Execution> {
    const path = `/v1/sessions/${sessionId}/executions`
    return this.#transport.ask({ method: 'POST', path, body, schema: Execution, idempotencyKey })
  }

  /** What is at work in a session. */
  active(sessionId: string): Promise<AbilityStatus> {
    const path = `/v1/sessions/${sessionId}/ability`
    return this.#transport.ask({ method: 'GET', path, schema: AbilityStatus })
  }

  /** With its steps and their outputs. */
  status(executionId: string): Promise<ExecutionRecord> {
    return this.#get(executionId, 0)
  }

  /** The folder that it runs: what whoever approves its plan answers for. */
  files(executionId: string): Promise<PinnedFolder> {
    const path = `/v1/executions/${executionId}/files`
    return this.#transport.ask({ method: 'GET', path, schema: PinnedFolder })
  }

  #get(executionId: string, wait: number, signal?: AbortSignal): Promise<ExecutionRecord> {
    const path = `/v1/executions/${executionId}`
    const schema = ExecutionRecord
    return this.#transport.ask({ method: 'GET', path, query: { wait }, schema, signal })
  }

  /** Until it has ended; with `orAsks` also once it waits for a person. */
  async waitFor(
    executionId: string,
    { orAsks = false, signal }: { orAsks?: boolean; signal?: AbortSignal } = {},
  ): Promise<ExecutionRecord> {
    for (;;) {
      const record = await this.#get(executionId, waitSeconds, signal)
      if (record.status !== 'running' || (orAsks && record.waitsFor.length > 0)) return record
      // While a person is asked the deployment answers at once.
      if (record.waitsFor.length > 0) await pauseBetweenLooks(signal)
    }
  }

  cancel(executionId: string, reason = ''): Promise<Execution> {
    return this.#change(executionId, 'cancel', { reason })
  }

  /** What a person says of a step that asks. */
  resume(executionId: string, stepId: string, answer: StepAnswer, reason = ''): Promise<Execution> {
    return this.#change(executionId, 'resume', { stepId, answer, reason })
  }

  #change(executionId: string, verb: string, body: object): Promise<Execution> {
    const path = `/v1/executions/${executionId}/${verb}`
    return this.#transport.ask({ method: 'POST', path, body, schema: Execution })
  }
}

const lookEveryMs = 2000
const pauseBetweenLooks = (signal?: AbortSignal) => transportPause(lookEveryMs, signal)
