import type {
  Attempt,
  AttemptStatus,
  RetryEvaluation,
  RetryPolicy,
} from '../../../contract/operation.ts'

export const retryable: Record<RetryPolicy, readonly AttemptStatus[]> = {
  never: [],
  'after-abandoned': ['abandoned'],
  'after-failure': ['failed'],
  'after-failure-or-abandoned': ['failed', 'abandoned'],
}

/** Whether another attempt may be made. Reads only; `attempts` are in order. */
export function evaluateRetry(policy: RetryPolicy, attempts: readonly Attempt[]): RetryEvaluation {
  const latest = attempts.at(-1) ?? null
  const active = attempts.find(({ status }) => status === 'reserved') ?? null
  const verdict = judge(policy, attempts, latest, active)
  return {
    ...verdict,
    policy,
    attemptCount: attempts.length,
    retryableStatuses: [...retryable[policy]],
    latest,
    active,
  }
}

type Verdict = Pick<RetryEvaluation, 'allowed' | 'reasonCode' | 'reason'>

function judge(
  policy: RetryPolicy,
  attempts: readonly Attempt[],
  latest: Attempt | null,
  active: Attempt | null,
): Verdict {
  if (latest === null)
    return { allowed: true, reasonCode: 'no-attempts', reason: 'There is no earlier attempt' }
  if (active)
    return no(
      'active-reservation',
      `Attempt "${active.id}" is reserved: abandon it, or wait for it`,
    )
  const succeeded = attempts.find(({ status }) => status === 'succeeded')
  if (succeeded) return no('succeeded', `Attempt "${succeeded.id}" has succeeded`)
  if (policy === 'never') return no('policy-never', 'The policy "never" allows no second attempt')
  return retryable[policy].includes(latest.status)
    ? { allowed: true, reasonCode: 'retryable', reason: `The latest attempt was ${latest.status}` }
    : no(
        'not-retryable',
        `The policy "${policy}" does not allow another attempt after one that was ${latest.status}`,
      )
}

const no = (reasonCode: RetryEvaluation['reasonCode'], reason: string): Verdict => ({
  allowed: false,
  reasonCode,
  reason,
})
