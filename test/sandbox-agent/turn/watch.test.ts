import { describe, expect, it } from 'vitest'
import { turnPatience } from '../../../src/contract/turn.ts'
import { type Look, type Verdict, Watch } from '../../../sandbox-agent/turn/watch.ts'

const usual: Look = {
  state: 'busy',
  afterMs: 5000,
  heard: false,
  moved: false,
  asking: false,
  atTool: false,
  stopping: false,
}
const looks = (change: Partial<Look>, times: number): Look[] =>
  Array.from({ length: times }, () => ({ ...usual, ...change }))

/** The verdicts of all looks; the last one twice would be one too many. */
function judge(...all: Look[]): Verdict[] {
  const watch = new Watch(turnPatience)
  return all.map((look) => watch.see(look))
}
const last = (...all: Look[]) => judge(...all).at(-1)
const perMinute = 12

describe('what is proof of life', () => {
  const lives: [name: string, all: Look[]][] = [
    ['an answer in time', looks({ state: 'busy' }, 10 * perMinute)],
    ['events, though no probe is answered', looks({ state: 'silent', heard: true }, 500)],
    ['something of the turn moves', looks({ moved: true }, 1000)],
    ['somebody is asked', looks({ asking: true }, 10_000)],
    ['a tool runs for an hour and says nothing', looks({ atTool: true }, 60 * perMinute)],
    [
      'three probes are missed, again and again',
      Array.from({ length: 50 }, () => [...looks({ state: 'silent' }, 3), usual]).flat(),
    ],
    [
      'an hour that nobody has seen pass',
      [...looks({}, 10), { ...usual, afterMs: turnPatience.lookEveryMs + turnPatience.probeMs }],
    ],
  ]
  it.each(lives)('[TURN13] %s', (_, all) => {
    expect(judge(...all).filter((verdict) => verdict !== 'go on')).toEqual([])
  })
})

describe('what is none', () => {
  const deaths: [name: string, all: Look[], reason: string][] = [
    ['no answer to four probes', looks({ state: 'silent' }, 4), 'OpenCode has not answered for'],
    ['busy for 15 minutes', looks({}, 15 * perMinute), 'Nothing has moved for 15 minutes'],
    [
      'a tool without a word for two hours',
      looks({ atTool: true }, 120 * perMinute),
      'A tool has run without a word for 120 minutes',
    ],
    [
      'quiet again after somebody was asked',
      [...looks({ asking: true }, 5000), ...looks({}, 15 * perMinute)],
      'Nothing has moved for 15 minutes',
    ],
  ]
  it.each(deaths)('[TURN12] [TURN13] %s', (_, all, reason) => {
    expect(last(...all)).toEqual({ hangs: expect.stringContaining(reason) })
    expect(last(...all.slice(0, -1))).toBe('go on')
  })
})

it('[TURN6] idle with an answer is over; without one it gets a moment, and less once nothing is to come', () => {
  expect(last({ ...usual, state: 'finished' })).toBe('over')
  expect(last(...looks({ state: 'idle' }, 3))).toBe('go on')
  expect(last(...looks({ state: 'idle' }, 4))).toBe('over')
  expect(last({ ...usual, state: 'idle', stopping: true })).toBe('over')
  expect(last(...looks({ state: 'idle' }, 3), usual, ...looks({ state: 'idle' }, 3))).toBe('go on')
})

it('[TURN12] a hang is told with the time that it lasted', () => {
  expect(last(...looks({ state: 'silent' }, turnPatience.missedProbes))).toEqual({
    hangs: `OpenCode has not answered for ${5 * turnPatience.missedProbes} s`,
  })
  expect(last(...looks({}, 15 * perMinute))).toEqual({ hangs: 'Nothing has moved for 15 minutes' })
})
