import type { Crypto, Sql } from '../../ports.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { secretAsText, secretRedactor } from '../record/secrets.ts'

/**
 * Secret inputs: sealed in their rows, and open only in this instance's memory while an execution is at work. The kernel
 * keeps their values out of every record. What a child is given of its parent's is the same sealed text.
 */
export class SecretInputs {
  readonly #sql: Sql
  readonly #crypto: Pick<Crypto, 'seal' | 'unseal'>
  readonly #open = new Map<string, unknown>()
  #openedState: number | undefined

  constructor(sql: Sql, crypto: Pick<Crypto, 'seal' | 'unseal'>) {
    this.#sql = sql
    this.#crypto = crypto
  }

  /** Before a commit that uses them. The state is another one as soon as there are others; what children are given is the same. */
  async open(state: number): Promise<void> {
    if (state === this.#openedState) return
    const rows = this.#sql.all<{ sealed: string }>(
      `select distinct sealed from execution_secrets where execution_id in
         (select id from executions where state in ('planned', 'running'))`,
    )
    for (const { sealed } of rows)
      if (!this.#open.has(sealed))
        this.#open.set(sealed, JSON.parse(await this.#crypto.unseal(sealed)))
    this.#openedState = state
  }

  /** Also in the kernel, which hides them. That it has opened them, for others, says nothing of these. */
  areOpen(kernel: Pick<SessionKernel, 'areSecretsOpen' | 'secretsState'>): boolean {
    return kernel.areSecretsOpen && kernel.secretsState === this.#openedState
  }

  /** No execution is at work any more. */
  close(): void {
    this.#open.clear()
    this.#openedState = undefined
  }

  /** Throws if they are not open: nothing is decided or begun without a value that somebody has given. */
  of(executionId: string): Readonly<Record<string, unknown>> {
    const rows = secretRows(this.#sql, executionId)
    return Object.fromEntries(rows.map(({ name, sealed }) => [name, this.#value(name, sealed)]))
  }

  #value(name: string, sealed: string): unknown {
    if (!this.#open.has(sealed))
      throw new Error(`Cannot use secret input "${name}": it is not open`)
    return this.#open.get(sealed)
  }

  async seal(values: Readonly<Record<string, unknown>>): Promise<Record<string, string>> {
    const sealed = Object.entries(values).map(
      async ([name, value]) => [name, await this.#crypto.seal(JSON.stringify(value))] as const,
    )
    return Object.fromEntries(await Promise.all(sealed))
  }
}

export const secretRows = (sql: Sql, executionId: string) =>
  sql.all<{ name: string; sealed: string }>(
    'select name, sealed from execution_secrets where execution_id = ? order by name',
    executionId,
  )

export function saveAbilitySecrets(
  sql: Sql,
  executionId: string,
  sealed: Readonly<Record<string, string>>,
): void {
  for (const [name, text] of Object.entries(sealed))
    sql.run('insert into execution_secrets values (?, ?, ?)', executionId, name, text)
}

/** Those that come with a request are in the kernel's redactor only once it is stored. */
export function withoutSecrets<T>(secrets: Readonly<Record<string, unknown>>, value: T): T {
  const known = Object.entries(secrets).map(([name, one]) => ({ name, value: secretAsText(one) }))
  return secretRedactor(known)?.redactJson(value) ?? value
}

/** Instead of a value that is not to be shown. */
export const masked = '[secret]'
