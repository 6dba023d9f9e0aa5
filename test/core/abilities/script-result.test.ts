import { expect, test } from 'vitest'
import { judgeScriptResult } from '../../../src/core/abilities/script-result.ts'
import { pinPaths } from '../../../src/core/abilities/pinned-paths.ts'
import { report } from '../../support/run-world.ts'

type Validation = Parameters<typeof judgeScriptResult>[0]['validation']

test.each<[string, Validation, Parameters<typeof report>[0], string | null]>([
  ['no rule, 0', undefined, { exitCode: 0 }, null],
  ['no rule, 1', undefined, { exitCode: 1, status: 'failed' }, 'Exit code 1, expected 0'],
  ['another code is expected', { exit_code: 3 }, { exitCode: 3, status: 'failed' }, null],
  ['0 where 3 is expected', { exit_code: 3 }, { exitCode: 0 }, 'Exit code 0, expected 3'],
  ['it says so', { stdout_contains: 'passed' }, { output: '12 passed' }, null],
  [
    'it does not',
    { stdout_contains: 'passed' },
    { output: 'x', stderr: 'passed' },
    'Standard output does not contain "passed"',
  ],
  ['its error says so', { stderr_contains: 'warn' }, { stderr: 'a warning' }, null],
  [
    'its error does not',
    { stderr_contains: 'warn' },
    { output: 'warn', stderr: '' },
    'Standard error does not contain "warn"',
  ],
  ['the file is there', { file_exists: 'a' }, { found: true }, null],
  ['the file is not there', { file_exists: 'a' }, { found: false }, 'There is no "a"'],
  ['nobody looked for the file', { file_exists: 'a' }, {}, 'There is no "a"'],
  [
    'too long',
    undefined,
    { exitCode: null, status: 'failed', durationMs: 1000 },
    "Step 's' timed out after 1000ms",
  ],
  [
    'killed',
    undefined,
    { exitCode: null, status: 'failed', error: 'It used 2 GB' },
    'It used 2 GB',
  ],
])('[ABL35] %s', (_, validation, change, error) => {
  const outcome = judgeScriptResult({ id: 's', validation, timeoutMs: 1000 }, report(change))
  expect(outcome.ok ? null : outcome.error).toBe(error)
})

test('[ABL16] the output is standard output, or standard error where that is empty', () => {
  const outputOf = (change: object) =>
    judgeScriptResult({ id: 's', validation: undefined, timeoutMs: 1000 }, report(change)).output
  expect(outputOf({ output: 'out', stderr: 'err' })).toBe('out')
  expect(outputOf({ output: '\n', stderr: 'err' })).toBe('err')
})

test.each([
  ['./scripts/a.sh x', '"$ABILITY_DIR"/scripts/a.sh x', ['scripts/a.sh'], []],
  ['scripts/a.sh && ./b.sh', '"$ABILITY_DIR"/scripts/a.sh && ./b.sh', ['scripts/a.sh'], ['b.sh']],
  ['bash -e scripts/a.sh', 'bash -e "$ABILITY_DIR"/scripts/a.sh', ['scripts/a.sh'], []],
  [
    'if true; then (sh scripts/a.sh); fi',
    'if true; then (sh "$ABILITY_DIR"/scripts/a.sh); fi',
    ['scripts/a.sh'],
    [],
  ],
  ['echo scripts/a.sh', 'echo scripts/a.sh', [], []],
  [
    '/scripts/a.sh; ../scripts/a.sh; "$X"/scripts/a.sh',
    '/scripts/a.sh; ../scripts/a.sh; "$X"/scripts/a.sh',
    [],
    [],
  ],
  ['npm test', 'npm test', [], []],
  ['source scripts/a.sh', 'source "$ABILITY_DIR"/scripts/a.sh', ['scripts/a.sh'], []],
  ['node -r x scripts/a.sh', 'node -r x scripts/a.sh', [], []],
])('[ABL33] %s', (script, filled, pinned, notPinned) => {
  expect(pinPaths(script, ['ability.yaml', 'scripts/a.sh'])).toEqual({
    ...{ script: filled, pinned, notPinned },
  })
})

test('[ABL33] the folder is written out where that is a plain word, and named where it is not', () => {
  const filled = (folder: string) => pinPaths('sh a/b.sh', ['a/b.sh'], folder).script
  expect(filled('/c/abilities/0f')).toBe('sh /c/abilities/0f/a/b.sh')
  expect(filled('/my folder/$(id)')).toBe('sh "$ABILITY_DIR"/a/b.sh')
})
