import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { root } from '../../../../local/binaries.ts'
import { SandboxState } from '../../../../src/contract/session.ts'
import {
  nextSandboxState,
  type SandboxCause,
  sandboxTransitions,
} from '../../../../src/core/session/generations/sandbox-states.ts'

const causes: SandboxCause[] = [
  ...(['create-sent', 'created', 'hello', 'ready', 'link-lost'] as const),
  ...(['gone', 'broken', 'start-failed', 'gave-up', 'hibernate', 'wake'] as const),
  ...(['replace', 'next', 'close', 'stopped'] as const),
]

/** The table of SPEC.md, area BOX: `| states | cause, cause -> state; … |`. */
function readSpec(): Map<string, string> {
  const spec = readFileSync(join(root, 'SPEC.md'), 'utf8')
  const table = /\| state \| cause -> next \|\n\|[-|]+\|\n((?:\|.*\n)+)/.exec(spec)?.[1] ?? ''
  const next = new Map<string, string>()
  for (const line of table.trim().split('\n')) {
    const [, states = '', rules = ''] = line.split('|')
    for (const state of states.split(',').map((text) => text.trim())) {
      next.set(state, '')
      for (const rule of rules.split(';').filter((text) => text.trim() !== '')) {
        const [given = '', to = ''] = rule.split('->').map((text) => text.trim())
        for (const cause of given.split(',').map((text) => text.trim()))
          next.set(`${state} ${cause}`, to)
      }
    }
  }
  return next
}

describe('[BOX1] sandbox states', () => {
  const spec = readSpec()

  test('SPEC names every state, and only causes that exist', () => {
    const names = [...spec.keys()]
    expect(names.filter((name) => !name.includes(' ')).sort()).toEqual(
      [...SandboxState.options].sort(),
    )
    const known = new Set<string>(causes)
    expect(
      names.flatMap((name) => name.split(' ').slice(1)).filter((cause) => !known.has(cause)),
    ).toEqual([])
    const used = Object.values(sandboxTransitions).flatMap((next) => Object.keys(next))
    expect(new Set(used)).toEqual(known)
  })

  test.each(
    SandboxState.options.flatMap((state) => causes.map((cause) => [state, cause] as const)),
  )('%s + %s is as SPEC says', (state, cause) => {
    expect(nextSandboxState(state, cause)).toBe(spec.get(`${state} ${cause}`) ?? null)
  })

  test('every state of an open session but none has an exit', () => {
    for (const state of SandboxState.options.filter((name) => name !== 'none'))
      expect(Object.keys(sandboxTransitions[state]), state).toContain('replace')
  })
})
