import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseAbilityDefinition } from '../../../src/core/abilities/definition.ts'
import { fillScriptSlots } from '../../../src/core/abilities/scripts/filling.ts'
import { readScriptSlots } from '../../../src/core/abilities/scripts/slots.ts'

// A value that is put into a variable is text there; but bash runs code that it finds where it reads a number or a name.

const problemsOf = (source: string): string[] => {
  const read = readScriptSlots(source)
  return 'problems' in read ? read.problems : []
}

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'flows-'))
})
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

/** Whether anything of the value runs in a real bash. */
function runs(source: string, value: string): boolean {
  const read = readScriptSlots(source)
  if ('problems' in read) throw new Error(read.problems.join('; '))
  const filled = fillScriptSlots(read, { inputs: { x: value }, steps: {}, ask: '' })
  if ('problem' in filled) throw new Error(filled.problem)
  spawnSync('bash', ['-c', filled.script], {
    cwd: folder,
    input: '',
    timeout: 10_000,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder },
  })
  return existsSync(join(folder, 'bait'))
}

const N = 'N={{inputs.x}}; '
const numbers = [
  `${N}if (( N > 3 )); then echo a; fi`,
  `${N}if (( $N > 3 )); then echo a; fi`,
  `${N}[[ $N -gt 3 ]]`,
  `${N}[[ N -eq 3 ]]`,
  `${N}echo $((N+1))`,
  `${N}echo "$(( \${N} + 1 ))"`,
  `${N}for ((i=0; i<N; i++)); do echo $i; done`,
  `${N}let M=N+1`,
  `${N}let "M = $N + 1"`,
  `declare -i N; ${N}`,
  `declare -i N={{inputs.x}}`,
  `f() { local -i M; M=$1; }; f {{inputs.x}}`,
  `${N}a=(1 2); echo "\${a[$N]}"`,
  `${N}a=(1 2); echo "\${a[N]}"`,
  `${N}a[$N]=1`,
  `${N}a=([$N]=1)`,
  `${N}v=abc; echo "\${v:$N}"`,
  `${N}v=abc; echo "\${v:0:N}"`,
  `N="a {{inputs.x}}"; (( N ))`,
  `${N}M=$N; (( M > 3 ))`,
  `${N}M="$(echo "$N")"; (( M > 3 ))`,
  'M=$(echo {{inputs.x}}); (( M > 3 ))',
  'for i in 1 {{inputs.x}}; do (( i > 3 )); done',
  'f() { (( $1 > 3 )); }; f {{inputs.x}}',
  'f() { local n=$1; (( n > 3 )); }; f {{inputs.x}}',
  'f() { echo "$X"; }; X={{inputs.x}}; n=$(f); (( n > 3 ))',
  'f() { read -r n; (( n > 3 )); }; f <<< {{inputs.x}}',
  'set -- {{inputs.x}}; (( $1 > 3 ))',
  'read -r n <<< {{inputs.x}}; (( n > 3 ))',
  'read -r n < <(echo {{inputs.x}}); (( n > 3 ))',
  'echo {{inputs.x}} | while read -r n; do (( n > 3 )); done',
  'while read -r n; do (( n > 3 )); done <<EOF\n{{inputs.x}}\nEOF\n',
  'mapfile -t a <<< {{inputs.x}}; (( a[0] > 3 ))',
  'printf -v n \'%s\' "$1"; set -- a; (( n )); set -- {{inputs.x}}; printf -v n %s "$1"; (( n ))',
  "bash -c '(( $1 > 3 ))' _ {{inputs.x}}",
  "N={{inputs.x}} bash -c '(( N > 3 ))'",
  `${N}export N; sudo sh -c 'echo $((N))'`,
  `${N}trap '(( N > 3 ))' EXIT`,
  `${N}: "\${M:=$N}"; (( M ))`,
  'OPTIND={{inputs.x}}; getopts a b',
  'RANDOM={{inputs.x}}',
  `${N}M=N; (( M > 3 ))`,
  'bash -c \'f() { (( $1 )); }; f "$1"\' _ {{inputs.x}}',
  'echo {{inputs.x}} > f; read -r n < ./f; (( n ))',
  'echo {{inputs.x}} | tee f; n=$(cat f); (( n ))',
  '{ echo {{inputs.x}}; } > f; n=$(<f); (( n ))',
  'set -- {{inputs.x}}; while getopts a: o; do (( OPTARG > 3 )); done',
]
const codes = [
  `${N}test -v "$N"`,
  `${N}[ -v "$N" ]`,
  `${N}[[ -v $N ]]`,
  `${N}printf -v "$N" hi`,
  `${N}printf "-v$N" hi`,
  'printf -v{{inputs.x}} hi',
  `${N}read "$N" <<< a`,
  `${N}unset "$N"`,
  `${N}echo "\${!N}"`,
  `${N}echo "\${N@P}"`,
  `${N}declare -n r=$N; echo "$r"`,
  `${N}eval "echo $N"`,
  `${N}bash -c "echo $N"`,
  `${N}echo "$N" | sh`,
  `${N}bash <<< "$N"`,
  `${N}"$N" --help`,
  `${N}trap "echo $N" EXIT`,
  `${N}export PATH="$N:$PATH"`,
  `${N}echo a >&"$N"`,
  'echo {{inputs.x}} > f; source f',
  'echo {{inputs.x}} > ./f.sh; bash f.sh',
  'cat > f.sh <<EOF\n{{inputs.x}}\nEOF\n./f.sh',
  'echo a >&{{inputs.x}}',
  'cat <&{{inputs.x}}',
]

describe('[ABL12] a value does not come to a variable', () => {
  test.each(numbers)('that is read as a number: %s', (source) => {
    expect(problemsOf(source)).toHaveLength(1)
  })
  test.each(codes)('that is read as code or as a name: %s', (source) => {
    expect(problemsOf(source)).toHaveLength(1)
  })

  test('and the mistake says which one, and what to write instead', () => {
    expect(problemsOf(numbers[0] ?? '')).toEqual([
      '{{inputs.x}} comes to $N, which the script reads as a number, and bash runs code in it; give the input "type: number", compare by [ "$A" -gt 1 ], or keep the digits alone by B=${A//[!0-9]/}',
    ])
    expect(problemsOf(`${N}eval "$N"`)).toEqual([
      '{{inputs.x}} comes to $N, which the script reads as code, as a name or as a program; pass it as an argument',
    ])
    expect(problemsOf('set -- {{inputs.x}}; (( $1 ))')[0]).toContain('a positional parameter')
  })
})

const safe = [
  `${N}if [ "$N" -gt 3 ]; then echo a; fi`,
  `${N}test "$N" -eq 3`,
  `${N}M=\${N//[!0-9]/}; (( M > 3 ))`,
  `M=$(tr -cd 0-9 <<< {{inputs.x}}); (( M > 3 ))`,
  'n=$(echo {{inputs.x}} | wc -l); (( n > 3 ))',
  `${N}n=$(wc -l < "$N"); if (( n > 3 )); then echo a; fi`,
  `${N}echo "\${#N}"; (( \${#N} > 3 ))`,
  `${N}i=0; (( i++ )); echo "$N"`,
  `${N}for ((i=0; i<3; i++)); do echo "$N"; done`,
  `${N}case $N in *a*) echo a;; "$N") echo b;; esac`,
  `${N}[[ $N == *a* && -n $N ]]`,
  `${N}echo "\${N:-none}" "\${N%.txt}" "\${N/a/b}" "\${HOME:-$N}"`,
  `${N}echo \`echo "$N"\``,
  `declare -A m; ${N}m[$N]=1; echo "\${m[$N]}"`,
  'f() { (( $1 > 3 )); echo "$2"; }; f 4; g() { echo "$1"; }; g {{inputs.x}}',
  'echo {{inputs.x}} | while read -r line; do (( count++ )); echo "$line"; done',
  `${N}env NAME="$N" printenv NAME`,
  'env NAME={{inputs.x}} printenv NAME',
  'bash -c \'echo "$1"; (( 1 > 0 ))\' _ {{inputs.x}}',
  `${N}cat <<EOF\n$N\nEOF\n`,
  'echo {{inputs.x}} > notes; n=$(wc -l < notes); (( n > 3 )); cat notes; bash -c "echo b" > log',
  'declare name={{inputs.x}}; echo "$name"',
  `${N}exec 3>&1; echo "$N" >&3`,
]

describe('[ABL12] a value comes to a variable', () => {
  const values = [
    'a[$(touch bait)]',
    '-va[$(touch bait)]',
    '1 a[$(touch bait)]',
    '$(touch bait)',
    'x=a[$(touch bait)]',
  ]
  test.each(safe)('and nothing of it runs: %s', (source) => {
    expect(problemsOf(source)).toEqual([])
    for (const value of values) expect([value, runs(source, value)]).toEqual([value, false])
  })
})

describe('[ABL12] [ABL8] what an input is declared to be', () => {
  const errorsOf = (input: string, step: string) => {
    const parsed = parseAbilityDefinition(
      `name: a\ndescription: A\ninputs:\n  x: ${input}\nsteps:\n  - id: s\n${step}`,
      null,
    )
    return 'errors' in parsed ? parsed.errors.map(({ code }) => code) : []
  }
  const run = "    run: 'N={{inputs.x}}; (( N > 3 ))'\n"
  test.each([
    ['{ type: number }', true],
    ['{ type: boolean }', true],
    ['{ enum: [low, high, "3"] }', true],
    ["{ pattern: '^[0-9]{1,5}$' }", true],
    ["{ pattern: '^\\d+$' }", true],
    ["{ pattern: '[0-9]+' }", false],
    ['{ enum: [low, "a[$(touch x)]"] }', false],
    ['{ type: string }', false],
    ['{ type: array }', false],
    ['{ type: object }', false],
  ])('%s: it may be read as a number is %s', (input, isAllowed) => {
    expect(errorsOf(input, run)).toEqual(isAllowed ? [] : ['UNSAFE_PLACEHOLDER'])
  })

  test('counts also for what comes by the environment of a step', () => {
    const env = "    env: { N: '{{inputs.x}}' }\n"
    for (const script of [
      "    run: '(( N > 3 ))'\n",
      "    run: 'M=$N; echo $((M)) {{inputs.x}}'\n",
    ]) {
      expect(errorsOf('{ type: string }', script + env)).not.toEqual([])
      expect(errorsOf('{ type: number }', script + env)).toEqual([])
    }
    expect(errorsOf('{ type: string }', `    run: 'echo "$N"'\n${env}`)).toEqual([])
    for (const name of ['OPTIND', 'RANDOM', 'HISTCMD'])
      expect(errorsOf('{}', `    run: ls\n    env: { ${name}: '{{inputs.x}}' }\n`)).toEqual([
        'UNSAFE_PLACEHOLDER',
      ])
  })

  test('but the output of a step may be anything', () => {
    const steps =
      "    run: ls\n  - id: t\n    needs: [s]\n    run: 'N={{steps.s.output}}; (( N > 3 ))'\n"
    expect(errorsOf('{}', steps)).toEqual(['UNSAFE_PLACEHOLDER'])
  })
})

test.each([
  ['values', 'echo {{inputs.x}} $A; '],
  ['wrappers', 'timeout 5 '],
  ['pipes', 'a $A {{inputs.x}} | '],
  ['loops', 'while read a; do b | '],
])('[ABL7] [ABL12] a script of many %s is read in bounded time', (_, part) => {
  const before = process.threadCpuUsage()
  readScriptSlots(`N={{inputs.x}}; ${part.repeat(32_000 / part.length)} echo`)
  const { user } = process.threadCpuUsage(before)
  expect(user / 1e6).toBeLessThan(5)
})
