import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take longest, longest first: begun late, each would hold up the end of a whole run alone. */
const slow = [
  'blackbox/conformance',
  'e2e/contract-modes',
  'e2e/turns',
  'local/sandboxes/fleet',
  'local/snapshots',
  'adapters/local-sandboxes',
  'local/stack/start',
  'sandbox-agent/execute/git',
  'sandbox-agent/evidence',
  'e2e/policy',
  'e2e/gate',
  'local/host',
  'sandbox-agent/execute',
  'core/session/budget/organisation-budgets',
  'blackbox/outage',
  'blackbox/',
  'e2e/ending',
]

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const found = slow.findIndex((part) => moduleId.includes(`/test/${part}`))
      return found === -1 ? slow.length : found
    }
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}
