import { describe, expect, it } from 'vitest'
import { usePinnedPrograms } from '../../../src/core/abilities/pinned-programs.ts'

const files = ['ability.yaml', 'scripts/a.sh', 'scripts/b.py', 'run']

describe('programs of an ability', () => {
  it.each([
    ['./scripts/a.sh x', '"$ABILITY_DIR/scripts/a.sh" x'],
    ['scripts/a.sh', '"$ABILITY_DIR/scripts/a.sh"'],
    ['./run', '"$ABILITY_DIR/run"'],
    ['"./run" x', '"$ABILITY_DIR/run" x'],
    ["'./scripts/a.sh'", '"$ABILITY_DIR/scripts/a.sh"'],
    ['bash scripts/a.sh --flag', 'bash "$ABILITY_DIR/scripts/a.sh" --flag'],
    ['python3 ./scripts/b.py "$x"', 'python3 "$ABILITY_DIR/scripts/b.py" "$x"'],
    [
      'cd x && ./scripts/a.sh | (./scripts/a.sh; true) > "$(./scripts/a.sh)"',
      'cd x && "$ABILITY_DIR/scripts/a.sh" | ("$ABILITY_DIR/scripts/a.sh"; true) > "$("$ABILITY_DIR/scripts/a.sh")"',
    ],
    ['A=1 ./scripts/a.sh 2>&1', 'A=1 "$ABILITY_DIR/scripts/a.sh" 2>&1'],
    ['if ./run; then ./run; fi', 'if "$ABILITY_DIR/run"; then "$ABILITY_DIR/run"; fi'],
  ])('[ABX6] of %s the ability’s own file runs', (script, expected) => {
    expect(usePinnedPrograms(script, files)).toEqual({ script: expected, unpinned: [] })
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
    expect(usePinnedPrograms(script, files)).toEqual({ script, unpinned })
  })
})
