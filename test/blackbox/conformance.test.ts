import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cases } from '../../conformance/cases/index.ts'
import { type Result, runCases } from '../../conformance/run.ts'
import { binary, root } from '../../local/binaries.ts'
import { type BrokenGateway, type Fault, startBrokenGateway } from '../support/broken-gateway.ts'
import { faultGroups, faults } from '../support/gateway-faults.ts'
import { isLong } from '../support/long.ts'
import { hostsOf, until, useStack } from '../support/stack.ts'

const failures = (results: Result[]) => results.filter(({ passed }) => !passed)
const namesOf = (items: { name: string }[]) => items.map(({ name }) => name).toSorted()
const timeoutMs = 15_000
/** What works is given more on a busy machine. */
const patienceMs = 120_000

describe.each(hostsOf(import.meta.filename))('a correct deployment on %s', (host) => {
  // As it is deployed: without the tools that tests add.
  const stack = useStack(host, async () => ({
    entry: join(root, 'src', host === 'deno' ? 'deno.ts' : 'worker.ts'),
  }))

  test('[API7] passes every case, and nothing is left behind', async () => {
    const { url, adminKey: key } = stack()
    const results = await runCases({ url, key, timeoutMs: patienceMs })
    expect(failures(results)).toEqual([])
    expect(results).toHaveLength(cases.length)
    expect((await stack().api('GET', '/v1/configurations')).json.items).toEqual([])
    await until(
      async () => (await stack().api('GET', '/v1/sessions')).json.items.length === 0,
      timeoutMs,
    )
  })

  test('[AUTH10] no token that was made is in the log', () => {
    expect(stack().log()).not.toContain('eyJ')
  })
})

test('every case cites a rule of SPEC.md', () => {
  const areas = readFileSync(join(root, 'SPEC.md'), 'utf8').split(/^## /m)
  const isRule = ({ rule }: { rule: string }) => {
    const [, name, number] = /^([A-Z]+)(\d+)$/.exec(rule) ?? []
    return areas.some((area) => area.startsWith(`${name}: `) && area.includes(`\n${number}. `))
  }
  expect(cases.filter((each) => !isRule(each))).toEqual([])
  expect(new Set(namesOf([...cases])).size).toBe(cases.length)
})

test('[API7] a deployment that is not there fails every case, and the table still comes', async () => {
  const results = await runCases({ url: 'http://127.0.0.1:1', key: 'gk_none', timeoutMs: 1000 })
  expect(failures(results)).toHaveLength(cases.length)
})

describe('a broken deployment', () => {
  const stack = useStack('workerd')

  test('every case has a fault, and every fault stands alone in one of its groups', () => {
    expect(new Set(faults.map(({ fails }) => fails))).toEqual(new Set(namesOf([...cases])))
    expect(new Set(namesOf([...faults])).size).toBe(faults.length)
    for (const fault of faults) {
      const rivals = faultGroups()
        .filter((group) => group.includes(fault))
        .map((group) => group.filter(({ fails }) => fails === fault.fails).length)
      expect([fault.name, Math.min(...rivals)]).toEqual([fault.name, 1])
    }
  })

  if (isLong)
    test('the proxy alone breaks nothing', async () => {
      const gateway = await startBrokenGateway(stack(), [])
      const results = await runCases({ url: gateway.url, key: stack().adminKey, timeoutMs })
      gateway.close()
      expect(failures(results)).toEqual([])
    })

  for (const group of chosenGroups()) {
    const wanted = [...new Set(group.map(({ fails }) => fails))].toSorted()
    test(`[API7] fails exactly the cases that it breaks: ${wanted.join(', ')}`, async () => {
      const gateway = await startBrokenGateway(stack(), group)
      const results = await runCases({ url: gateway.url, key: stack().adminKey, timeoutMs })
      gateway.close()
      expect(namesOf(failures(results))).toEqual(wanted)
    })
  }
})

/** All in the long run, else one, another one with each commit: the whole suite runs for each. */
function chosenGroups(): Fault[][] {
  const groups = faultGroups()
  if (isLong) return groups
  const first = Number(process.env['GANTRY_SEED'] ?? 0)
  return [groups[first % groups.length] ?? []]
}

describe('npm run conformance', () => {
  const stack = useStack('workerd')
  let broken: BrokenGateway
  beforeAll(async () => {
    const fault = faults.filter(({ fails }) => fails === 'token-expired')
    broken = await startBrokenGateway(stack(), fault)
  })
  afterAll(() => broken?.close())

  test('[API7] prints a table and exits with 0, or with 1 if a case failed', async () => {
    const some = ['--only', 'token-expired', '--only', 'duplicate']
    const right = await run('--url', stack().url, '--key', stack().adminKey, ...some)
    expect(right.output).toMatch(/case +rule +result +seen\n/)
    expect(right.output).toMatch(/token-expired +AUTH4 +pass +401 token_expired\n/)
    expect([right.code, right.output.trim().split('\n').at(-1)]).toEqual([0, '2 passed, 0 failed'])
    const wrong = await run('--url', broken.url, '--key', stack().adminKey, ...some)
    expect(wrong.output).toMatch(
      /token-expired +AUTH4 +FAIL +answer: saw 200 .*, not 401 token_expired/,
    )
    expect([wrong.code, wrong.output.trim().split('\n').at(-1)]).toEqual([1, '1 passed, 1 failed'])
    expect(right.output + wrong.output).not.toContain(stack().adminKey)
  })

  test('[API7] says what it wants if it is called wrongly', async () => {
    expect((await run('--url', stack().url)).code).toBe(2)
    const unknown = await run('--url', stack().url, '--key', 'k', '--only', 'nothing')
    expect([unknown.code, unknown.output]).toEqual([2, expect.stringContaining('check-order')])
  })
})

async function run(...args: string[]): Promise<{ code: number | null; output: string }> {
  const env = { PATH: process.env['PATH'] ?? '' }
  const child = spawn(binary('node'), [join(root, 'conformance', 'main.ts'), ...args], { env })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { code, output }
}
