import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../../../local/binaries.ts'
import { stateDirOf } from '../../../local/state/state-dir.ts'

test.each([
  [undefined, {}, join(root, '.gantry')],
  ['', {}, join(root, '.gantry')],
  ['', { unset: '.gantry/dev' }, join(root, '.gantry/dev')],
  ['/srv/gantry', { unset: '.gantry/dev' }, '/srv/gantry'],
  ['/srv/gantry', { host: 'workerd' }, '/srv/gantry'],
  ['/srv/gantry', { host: 'deno' }, '/srv/gantry/deno'],
  ['here', {}, join(process.cwd(), 'here')],
  [undefined, { host: 'deno' }, join(root, '.gantry/deno')],
])('[LOC26] the state of %j and %j is in %s', (given, options, expected) => {
  expect(stateDirOf(given, options)).toBe(expected)
})
