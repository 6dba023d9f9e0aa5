import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../support.ts'

it('[BOX13] on a full disk commands are carried out once and answered, events are told, and nothing stays half-written', () => {
  const main = fileURLToPath(new URL('full-disk-main.ts', import.meta.url))
  // Eight blocks of 512 bytes. The signal of the limit is ignored, so that a write fails as it does on a full disk.
  const script = `ulimit -f 8; trap '' XFSZ; exec "$0" "$@"`
  const args = ['-c', script, process.execPath, main, temporaryFolder()]
  const answer = execFileSync('/bin/sh', args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [commands, spool, memory] = JSON.parse(answer) as Record<string, unknown>[]
  expect(commands).toEqual({
    executed: 30,
    sent: 60,
    torn: false,
    onDisk: expect.any(Number),
    kept: 30,
  })
  expect(commands?.['onDisk']).toBeLessThan(30)
  expect(spool).toEqual({ told: 50, last: 50, again: [49, 50, 51] })
  expect(memory).toMatchObject({ loss: 10_000, again: { opencodeSessionId: 'before', loss: null } })
})
