// What collecting adds to the work: turns with a real OpenCode in mode full, until all of their changes are in the ledger,
// over the same turns in mode off until they have ended.

import { join } from 'node:path'
import { sleep } from '../local/processes/processes.ts'
import { script, type ScriptStep } from '../local/model/scripted-model.ts'
import { type Stack, startStack } from '../local/stack/stack.ts'
import type { RunChanges } from '../src/contract/change-ledger.ts'
import type { Session } from '../src/contract/session.ts'
import type { Turn } from '../src/contract/turn.ts'
import { api } from './api.ts'
import { processorMsBelow } from './processor.ts'
import { median, type Row } from './table.ts'

const rounds = 4
/** More than one collect may have. */
const edits = 14

/** Round by round on both, so that what else the machine does meets both. */
export async function measureCollecting(folder: string): Promise<Row[]> {
  const places = await Promise.all(['off', 'full'].map((mode) => open(mode, join(folder, mode))))
  const [off, full] = places as [Place, Place]
  try {
    const times: Record<'base' | 'ours' | 'baseAgain', Times[]> = {
      base: [],
      ours: [],
      baseAgain: [],
    }
    // The first round warms up.
    for (let round = 0; round <= rounds; round += 1) {
      times.base.push(await oneTurn(off, `${round}a`))
      times.ours.push(await oneTurn(full, `${round}a`))
      times.baseAgain.push(await oneTurn(off, `${round}b`))
    }
    const of = (which: keyof typeof times, name: keyof Times) =>
      median(times[which].slice(1).map((each) => each[name]))
    const compared = (name: keyof Times) => ({
      ...{ ours: of('ours', name), base: of('base', name), baseAgain: of('baseAgain', name) },
      unit: 'ms',
    })
    return [
      {
        measure: `evidence: a turn of ${edits + 1} changes until its end, full / off`,
        ...{ ...compared('ended'), aim: { most: 1.1 } },
      },
      {
        measure: 'evidence: the same until all is collected, full / off',
        ...compared('collected'),
      },
      {
        measure: 'evidence: processor time of the same, full / off',
        ...{ ...compared('processor'), aim: { most: 1.1 } },
      },
      { measure: 'evidence: reads of one such turn', ours: of('ours', 'readMs'), unit: 'ms' },
    ]
  } finally {
    for (const { stack } of places) await stack.erase()
  }
}

interface Times {
  ended: number
  collected: number
  /** Of the whole stack with its sandbox. It says less than a time, and a busy machine hardly changes it. */
  processor: number
  readMs: number
}
interface Place {
  stack: Stack
  sessionId: string
}

async function open(mode: string, stateDir: string): Promise<Place> {
  const env = { OPENCODE_SNAPSHOT_PROOF_UPGRADE: mode }
  const stack = await startStack({ stateDir, host: 'workerd', env })
  const { id: sessionId } = (await api(stack, 'POST', '/v1/sessions', {})) as Session
  const view = async () => (await api(stack, 'GET', `/v1/sessions/${sessionId}`)) as Session
  while ((await view()).sandbox.state !== 'ready') await sleep(100)
  return { stack, sessionId }
}

async function oneTurn({ stack, sessionId }: Place, name: string): Promise<Times> {
  const text = `Do what the script says.\n${script(stepsOf(`f${name}.txt`))}`
  const used = processorMsBelow(process.pid)
  const begun = performance.now()
  const { id: turnId } = (await api(stack, 'POST', `/v1/sessions/${sessionId}/prompts`, {
    text,
  })) as Turn
  const turn = async () => (await api(stack, 'GET', `/v1/turns/${turnId}?wait=10`)) as Turn
  let found = await turn()
  while (found.state === 'queued' || found.state === 'running') found = await turn()
  const ended = performance.now() - begun
  const path = `/v1/runs/${found.runId}/changes`
  const look = async () => (await api(stack, 'GET', path)) as RunChanges
  let changes = await look()
  while (!isCollected(changes)) {
    await sleep(10)
    changes = await look()
  }
  const readMs = changes.collects.reduce(
    (total, { statistics }) => total + (statistics?.snapshotReadElapsedMs ?? 0),
    0,
  )
  const collected = performance.now() - begun
  return { ended, collected, processor: processorMsBelow(process.pid) - used, readMs }
}

const isCollected = ({ files, collects }: RunChanges) =>
  files[0]?.events.length === edits + 1 && collects.every(({ state }) => state !== 'asked')

const stepsOf = (filePath: string): ScriptStep[] => {
  const calls = [
    { name: 'write', args: { filePath, content: '0 of many\n' } },
    ...Array.from({ length: edits }, (_, at) => ({
      name: 'edit',
      args: { filePath, oldString: `${at} of`, newString: `${at + 1} of` },
    })),
  ]
  return [...calls.map((call) => ({ calls: [call] })), { text: 'Done.' }]
}
