import { describe, expect, test } from 'vitest'
import type { Attempt, AttemptStatus, RetryPolicy } from '../../../../src/contract/operation.ts'
import { evaluateRetry } from '../../../../src/core/session/operations/retry.ts'

const attempt = (status: AttemptStatus, index: number) =>
  ({ id: `att_${index}`, status, sequence: index + 1 }) as unknown as Attempt
const attempts = (...statuses: AttemptStatus[]) => statuses.map(attempt)

/** The seed's table: policy, then what the attempts were, then whether another is allowed. */
const rows: [RetryPolicy, AttemptStatus[], boolean, string][] = [
  ['never', [], true, 'no-attempts'],
  ['never', ['reserved'], false, 'active-reservation'],
  ['never', ['succeeded'], false, 'succeeded'],
  ['never', ['failed'], false, 'policy-never'],
  ['never', ['abandoned'], false, 'policy-never'],
  ['after-abandoned', [], true, 'no-attempts'],
  ['after-abandoned', ['reserved'], false, 'active-reservation'],
  ['after-abandoned', ['succeeded'], false, 'succeeded'],
  ['after-abandoned', ['failed'], false, 'not-retryable'],
  ['after-abandoned', ['abandoned'], true, 'retryable'],
  ['after-failure', ['reserved'], false, 'active-reservation'],
  ['after-failure', ['succeeded'], false, 'succeeded'],
  ['after-failure', ['failed'], true, 'retryable'],
  ['after-failure', ['abandoned'], false, 'not-retryable'],
  ['after-failure-or-abandoned', ['reserved'], false, 'active-reservation'],
  ['after-failure-or-abandoned', ['succeeded'], false, 'succeeded'],
  ['after-failure-or-abandoned', ['failed'], true, 'retryable'],
  ['after-failure-or-abandoned', ['abandoned'], true, 'retryable'],
  // The latest counts, but a reservation or a success anywhere blocks.
  ['after-failure', ['abandoned', 'failed'], true, 'retryable'],
  ['after-failure', ['failed', 'abandoned'], false, 'not-retryable'],
  ['after-failure-or-abandoned', ['reserved', 'failed'], false, 'active-reservation'],
  ['after-failure-or-abandoned', ['succeeded', 'failed'], false, 'succeeded'],
]

/** In words, for a person. */
const said: Record<string, string> = {
  'no-attempts': 'There is no earlier attempt',
  'active-reservation': 'is reserved: abandon it, or wait for it',
  succeeded: 'has succeeded',
  'policy-never': 'The policy "never" allows no second attempt',
  'not-retryable': 'does not allow another attempt after one that was',
  retryable: 'The latest attempt was',
}

describe('[ATT5] retry policies (R1-43 to R1-48)', () => {
  for (const [policy, statuses, allowed, reasonCode] of rows) {
    test(`${policy} after ${statuses.join(', ') || 'nothing'}: ${reasonCode}`, () => {
      const list = attempts(...statuses)
      expect(evaluateRetry(policy, list)).toMatchObject({
        allowed,
        reasonCode,
        reason: expect.stringContaining(said[reasonCode] ?? ''),
        policy,
        attemptCount: statuses.length,
        latest: list.at(-1) ?? null,
        active: list.find(({ status }) => status === 'reserved') ?? null,
      })
    })
  }
})
