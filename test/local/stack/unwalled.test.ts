import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Asking, unwalledBindings } from '../../../local/stack/unwalled.ts'
import type { Enclosure } from '../../../src/contract/enclosure.ts'

let stateDir: string
let printed: string
let questions: number
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'unwalled-'))
  printed = ''
  questions = 0
})
afterEach(() => rmSync(stateDir, { recursive: true, force: true }))

const wallsOf = (level: Enclosure) => ({ level, how: 'test', why: level === 'full' ? null : 'why' })
const answering = (answer: string) => async () => {
  questions += 1
  return answer
}
const start = (ask: Asking['ask'], change: Partial<Asking> = {}, level: Enclosure = 'none') =>
  unwalledBindings(wallsOf(level), {
    ...{ stateDir, environment: {}, isDemo: false, ask },
    print: (line = '') => void (printed += `${line}\n`),
    ...change,
  })
const accepted = { GANTRY_UNWALLED_APPROVALS: 'accept' }
const refused = { GANTRY_UNWALLED_APPROVALS: 'refuse' }

describe('[LOC30] where sandboxes have no enclosure', () => {
  test.each([
    ['y', accepted],
    ['Yes', accepted],
    ['', refused],
    ['no', refused],
    ['yikes', refused],
  ])('%j at the terminal is asked for once and kept', async (answer, bindings) => {
    expect(await start(answering(answer))).toEqual(bindings)
    expect(printed).toContain('(why): an agent can read your keys')
    expect(await start(answering('y'))).toEqual(bindings)
    expect(await start(null)).toEqual(bindings)
    expect(questions).toBe(1)
    const path = join(stateDir, 'unwalled-approvals')
    expect(readFileSync(path, 'utf8').trim()).toBe(bindings.GANTRY_UNWALLED_APPROVALS)
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test('without a terminal the variable is printed, nothing is kept, and the next start asks', async () => {
    expect(await start(null)).toEqual(refused)
    expect(printed).toContain('set GANTRY_UNWALLED_APPROVALS=accept')
    expect(existsSync(join(stateDir, 'unwalled-approvals'))).toBe(false)
    expect(await start(answering('y'))).toEqual(accepted)
  })

  test('the shell wins, and the demo never asks', async () => {
    const environment = { GANTRY_UNWALLED_APPROVALS: 'refuse' }
    expect(await start(answering('y'), { environment })).toEqual({})
    expect(await start(answering('n'), { isDemo: true })).toEqual(accepted)
    expect([questions, printed]).toEqual([0, ''])
  })

  test.each(['uid', 'full'] as const)('under %s nothing is asked', async (level) => {
    expect(await start(answering('y'), {}, level)).toEqual({})
    expect([questions, printed]).toEqual([0, ''])
  })
})
