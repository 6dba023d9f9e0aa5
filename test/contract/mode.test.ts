import { expect, test } from 'vitest'
import { ClientType, deriveMode, type Mode, SessionType } from '../../src/contract/mode.ts'

const configurations = [null, '', 'cfg_1'] as const
const combinations = configurations.flatMap((configurationId) =>
  SessionType.options.flatMap((sessionType) =>
    ClientType.options.map((clientType) => ({ configurationId, sessionType, clientType })),
  ),
)

// Written out, so that the test does not repeat the function's own reasoning.
const expected: Record<string, Mode> = {
  'cfg_1 setup api': 'setup',
  'cfg_1 setup cli': 'setup',
  'cfg_1 setup dashboard': 'setup',
  'cfg_1 setup automation': 'setup',
  'cfg_1 coding api': 'coding',
  'cfg_1 coding cli': 'coding',
  'cfg_1 coding dashboard': 'coding',
  'cfg_1 coding automation': 'automation',
}

test.each(combinations)('$configurationId, $sessionType, $clientType', (input) => {
  const key = `${input.configurationId} ${input.sessionType} ${input.clientType}`
  expect(deriveMode(input)).toBe(expected[key] ?? 'scratch')
  if (input.configurationId) expect(Object.keys(expected)).toContain(key)
})
