import { expect, test } from 'vitest'
import type { Session } from '../../../src/contract/session.ts'
import {
  providerBlockedError,
  providerStartError,
  providerTimeoutError,
} from '../../../src/core/eval-run/providers/errors.ts'

const look = 'Look at the sandbox provider "e2b" (POST /v1/providers/e2b/check).'
const update = 'Update the image of the sandbox or add it to PATH.'

// What the sandbox's agent, its shell and the providers say, and what an attempt says of it.
test.each([
  [
    'Cannot start OpenCode: spawn /opt/opencode ENOENT',
    `OpenCode executable '/opt/opencode' was not found. ${update}`,
  ],
  [
    'Cannot start OpenCode: spawn opencode ENOENT',
    `OpenCode executable 'opencode' was not found. ${update}`,
  ],
  ['sh: 1: opencode: not found', `OpenCode executable 'opencode' was not found. ${update}`],
  [
    'bash: line 1: /x/bin/opencode: command not found',
    `OpenCode executable '/x/bin/opencode' was not found. ${update}`,
  ],
  [
    'OpenCode ended at start: exit code 3',
    `OpenCode exited with code 3: OpenCode ended at start: exit code 3. ${look}`,
  ],
  [
    'OpenCode exited with code 127',
    `OpenCode exited with code 127: OpenCode exited with code 127. ${look}`,
  ],
  [
    'OpenCode ended at start: SIGKILL',
    `OpenCode could not be started: OpenCode ended at start: SIGKILL. ${look}`,
  ],
  [
    'The provider does not answer.',
    `OpenCode could not be started: The provider does not answer. ${look}`,
  ],
  [null, `OpenCode could not be started: the sandbox is failed. ${look}`],
])('[EVR18] %s: the attempt says what failed and what to change', (reason, error) => {
  const sandbox = { state: 'failed', reason, provider: 'e2b' }
  expect(providerStartError({ sandbox } as Session)).toBe(error)
})

test('[EVR17] [EVR14] a time-out and a blocked permission are named in the same style', () => {
  expect(providerTimeoutError('OpenCode', 4)).toBe('OpenCode timed out after 4s')
  expect(providerBlockedError('bash: sudo ls', 'Runs as root', 'oc')).toBe(
    "OpenCode permission was blocked: bash: sudo ls (Runs as root). Set permissions of target 'oc' to once or always to allow it.",
  )
})
