import { describe, expect, it } from 'vitest'
import { usePinnedPrograms } from '../../../src/core/abilities/pinned-programs.ts'

const files = ['ability.yaml', 'scripts/a.sh', 'scripts/b.py', 'run']

describe('programs of an ability', () => {
  it.each([
    ['./scripts/a.sh x', '/dir/scripts/a.sh x'],
    ['scripts/a.sh', '/dir/scripts/a.sh'],
    ['./run', '/dir/run'],
    ['"./run" x', '/dir/run x'],
    ["'./scripts/a.sh'", '/dir/scripts/a.sh'],
    ['bash scripts/a.sh --flag', 'bash /dir/scripts/a.sh --flag'],
    ['python3 ./scripts/b.py "$x"', 'python3 /dir/scripts/b.py "$x"'],
    [
      'cd x && ./scripts/a.sh | (./scripts/a.sh; true) > "$(./scripts/a.sh)"',
      'cd x && /dir/scripts/a.sh | (/dir/scripts/a.sh; true) > "$(/dir/scripts/a.sh)"',
    ],
    ['A=1 ./scripts/a.sh 2>&1', 'A=1 /dir/scripts/a.sh 2>&1'],
    ['if ./run; then ./run; fi', 'if /dir/run; then /dir/run; fi'],
  ])('[ABX6] of %s the ability’s own file runs', (script, expected) => {
    expect(usePinnedPrograms(script, files, '/dir')).toEqual({ script: expected, unpinned: [] })
  })

  it('[ABX6] whatever the folder is called, it is one word', () => {
    const { script } = usePinnedPrograms('./run x', files, "/it's here")
    expect(script).toBe(`'/it'\\''s here/run' x`)
  })

  it.each([
    ['run', []],
    ['npm test', []],
    ['/usr/bin/env x', []],
    ['cat ./scripts/a.sh', []],
    ['echo "./scripts/a.sh"', []],
    ['./scripts/../scripts/a.sh', []],
    ['../scripts/a.sh', []],
    ['bash -c ./scripts/a.sh', []],
    ['./build.sh && ./tools/x', ['./build.sh', './tools/x']],
    ['bash ci/test.sh', ['ci/test.sh']],
    ['echo "unclosed', []],
  ])('[ABX6] %s stays as it is', (script, unpinned) => {
    expect(usePinnedPrograms(script, files, '/dir')).toEqual({ script, unpinned })
  })
})
