import { randomBytes } from 'node:crypto'
import type { Configuration } from '../src/contract/configuration.ts'
import { cases, type Case } from './cases/index.ts'
import { Kit, type Target } from './kit.ts'

export interface Result {
  name: string
  rule: string
  passed: boolean
  /** In a few words; of a failure, what it should have been. */
  seen: string
}

export interface RunOptions extends Target {
  /** Names of cases. Default: all. */
  only?: readonly string[]
}

// Most of the time is spent waiting, and each case has sessions of its own.
const atOnce = 8

/** Drives a deployment through every case. Leaves nothing behind. */
export async function runCases({ only, ...target }: RunOptions): Promise<Result[]> {
  const wanted = only ? cases.filter(({ name }) => only.includes(name)) : cases
  const shared = new Kit(target, () => configurationId())
  let making: Promise<string> | undefined
  const configurationId = () => (making ??= makeConfiguration(shared))
  const results = new Map<Case, Result>()
  const left = [...wanted]
  const work = async () => {
    for (let next = left.shift(); next; next = left.shift()) {
      results.set(next, await runCase(next, new Kit(target, configurationId)))
    }
  }
  try {
    await Promise.all(Array.from({ length: atOnce }, work))
  } finally {
    // Why it could not be made is told by the cases that wanted it.
    const id = await making?.catch(() => undefined)
    if (id !== undefined) await shared.api('DELETE', `/v1/configurations/${id}`)
  }
  return wanted.map((each) => results.get(each) as Result)
}

async function makeConfiguration(kit: Kit): Promise<string> {
  const name = `conformance ${randomBytes(6).toString('hex')}`
  return (await kit.api<Configuration>('POST', '/v1/configurations', { name })).id
}

async function runCase({ name, rule, run }: Case, kit: Kit): Promise<Result> {
  const outcome = await attempt(() => run(kit))
  const cleaned = await attempt(async () => (await kit.cleanUp(), ''))
  // What could not be removed is a fault as well, but the first one says more.
  return { name, rule, ...(outcome.passed && !cleaned.passed ? cleaned : outcome) }
}

async function attempt(work: () => Promise<string>): Promise<Pick<Result, 'passed' | 'seen'>> {
  try {
    return { passed: true, seen: await work() }
  } catch (error) {
    return { passed: false, seen: error instanceof Error ? error.message : String(error) }
  }
}
