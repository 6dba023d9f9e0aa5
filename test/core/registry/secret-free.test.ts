import { expect, test } from 'vitest'
import { looksSecret } from '../../../src/core/registry/secret-free.ts'

const key = `ghp_${'aB3dE6gH9'.repeat(4)}`
const hexOf = (text: string): string => Buffer.from(text).toString('hex')

const pieces = {
  'hex in one run': hexOf('no key of any kind'),
  'hex in many runs': `${hexOf('no key of any kind')}\n- `,
  base64: 'Tm8ga2V5IG9mIGFueSBraW5k',
}

/** Of three, so that what else the machine does counts less. */
function leastMs(work: () => void): number {
  const times = [1, 2, 3].map(() => {
    const before = process.threadCpuUsage()
    work()
    const { user, system } = process.threadCpuUsage(before)
    return (user + system) / 1000
  })
  return Math.min(...times)
}

test.each(Object.entries(pieces))(
  '[MEM7] 4 MiB of %s take less than 0.8 s of the processor',
  (_, piece) => {
    const text = piece.repeat((4 * 1024 * 1024) / piece.length)
    expect(leastMs(() => expect(looksSecret(text)).toBe(false))).toBeLessThan(800)
  },
)

test.each([
  ['at the begin', 0],
  ['across the border of what is put together at once', 8192 - 20],
  ['far behind it', 3 * 8192],
])('[MEM7] a key in a long run of hex is found: %s', (_, at) => {
  const run = hexOf(`${' '.repeat(at)} ${key} ${' '.repeat(10_000)}`)
  for (const text of [run, run.toUpperCase(), `f${run}`, run.replaceAll(/../g, '$&00')])
    expect(looksSecret(text)).toBe(true)
  expect(looksSecret(hexOf(' '.repeat(at + 10_000)))).toBe(false)
})
