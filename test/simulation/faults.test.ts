import { expect, test } from 'vitest'
import { faults, showFault } from './faults.ts'

test.each(Object.keys(faults))(
  '[TEST4] the simulation finds a mended fault that is put back: %s',
  { timeout: 1_200_000 },
  async (name) => {
    const { isFound, output } = await showFault(name)
    expect(isFound, output).toBe(true)
  },
)
