import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

const keep = readFileSync(
  join(import.meta.dirname, '../../sandbox-agent/modal/gantry_modal/keep.sh'),
  'utf8',
)

let state: string
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'gantry-keep-'))
})
afterEach(() => rmSync(state, { recursive: true, force: true }))

/** The first process of a sandbox, on a clock that goes ten seconds at a time: how it ended, and when. */
function runKeep(lifetimeSeconds: number): [code: number | null, seconds: number] {
  const clock = join(state, 'clock')
  writeFileSync(clock, '0\n')
  const time = `date() { cat ${clock}; }
sleep() { local at; read -r at < ${clock}; echo $((at + 10)) > ${clock}; }
`
  const script = time + keep.replace('state=/var/lib/gantry', `state=${state}`)
  const args = ['-c', script, 'keep', String(lifetimeSeconds)]
  const { status } = spawnSync('/bin/bash', args, { timeout: 15_000 })
  return [status, Number(readFileSync(clock, 'utf8'))]
}

test('[MODAL12] without an agent a sandbox ends itself after three minutes', () => {
  expect(runKeep(3600)).toEqual([12, 180])
})

test('[MODAL12] while its files are restored it is given ten', () => {
  writeFileSync(join(state, 'restoring'), '')
  expect(runKeep(3600)).toEqual([12, 600])
})

test('[MODAL12] its lifetime ends it whatever is restored, and an agent that has ended a minute later', () => {
  writeFileSync(join(state, 'restoring'), '')
  expect(runKeep(60)).toEqual([10, 60])
  mkdirSync(join(state, 'launch'))
  writeFileSync(join(state, 'launch', 'process'), '999999999 1\n')
  expect(runKeep(3600)).toEqual([11, 70])
})
