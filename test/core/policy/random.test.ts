import { describe, expect, test } from 'vitest'
import {
  Category,
  Decision,
  PermissionDecision,
  type PermissionOverrides,
  type PermissionRequest,
  Risk,
} from '../../../src/contract/permission.ts'
import type { Policy } from '../../../src/contract/policy.ts'
import { evaluatePermission } from '../../../src/core/policy/evaluate.ts'
import { mustAsk, planIsolation } from '../../../src/core/policy/isolation.ts'
import { replayDecisions } from '../../../src/core/policy/replay.ts'
import { operationDefault, sandboxDefault } from '../../../src/core/policy/builtin-policy.ts'
import { decideCommand, policyOf, request, root, toolRequest } from './requests.ts'
import { seedsOf } from '../../support/random.ts'

/** Small and the same everywhere: a failing seed can be run again. */
function randomOf(seed: number) {
  let state = (seed * 2654435761) >>> 0
  const below = (n: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * n)
  }
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T
  const some = <T>(list: readonly T[], most: number): T[] =>
    Array.from({ length: below(most + 1) }, () => pick(list))
  return { below, pick, some }
}
type Random = ReturnType<typeof randomOf>

const seeds = seedsOf(5, 40)
const strictness: Record<Decision, number> = { allow: 0, ask: 1, deny: 2 }

const words = [
  ...[
    'ls',
    'rm',
    '-rf',
    'git',
    'push',
    '--force',
    'cat',
    '.env',
    '/etc/passwd',
    '../x',
    '~/x',
    'src/a.ts',
    '$X',
    '$HOME',
  ],
  ...[
    'sudo',
    'sh',
    '-c',
    "'",
    '"',
    '`',
    '$(',
    ')',
    '(',
    '{',
    '}',
    ';',
    '&&',
    '||',
    '|',
    '&',
    '>',
    '<',
    '<<EOF',
    'EOF',
    '\n',
  ],
  ...[
    'xargs',
    'find',
    '-exec',
    '\\;',
    'env',
    'X=1',
    'eval',
    'cd',
    '..',
    '*',
    '[[',
    ']]',
    'if',
    'then',
    'fi',
    'for',
    'do',
  ],
  ...[
    'done',
    'case',
    'esac',
    'in',
    '${x:-',
    '$((',
    '))',
    '<(',
    '\\',
    '#',
    '!',
    '\u00a0',
    '\t',
    '~',
    '@',
    '%',
    'curl',
    'a.com',
  ],
]
const commandOf = (random: Random): string =>
  random.some(words, 14).join(random.pick([' ', ' ', ' ', '']))

const paths = [
  `${root}/a`,
  `${root}/.env`,
  '/etc/x',
  root,
  '/tmp/.session_env.json',
  '/',
  `${root}/src/b.ts`,
]
const requestOf = (random: Random): PermissionRequest =>
  request({
    category: random.pick(Category.options),
    tool: random.pick([null, 'bash', 'read']),
    agent: random.pick([null, 'build', 'plan']),
    subagent: random.pick([null, 'helper']),
    paths: random.some(paths, 3),
    hosts: random.some(['a.com', 'b.com'], 2),
    command: random.below(2) ? commandOf(random) : null,
    risks: random.some(Risk.options, 1),
  })

const overridesOf = (random: Random): PermissionOverrides =>
  Object.fromEntries(
    random.some(Category.options, 5).map((category) => [category, random.pick(Decision.options)]),
  )

function ruleOf(random: Random, decision = random.pick(Decision.options)): unknown {
  const match: Record<string, unknown> = {}
  if (random.below(2))
    match['category'] = random.some(Category.options, 2).concat(random.pick(Category.options))
  if (random.below(4) === 0) match['path'] = random.pick(['**', '/**', 'src/*', '~/**', '.env'])
  if (random.below(4) === 0) match['command'] = random.pick(['rm *', '*', 'git *', 'ls*'])
  if (random.below(5) === 0) match['host'] = random.pick(['*', 'a.com'])
  if (random.below(5) === 0) match['tool'] = random.pick(['bash', '*'])
  if (random.below(5) === 0) match['agent'] = random.pick(['build', 'plan'])
  if (random.below(4) === 0) match['risks'] = random.pick(Risk.options)
  return { match, decision }
}

const policyFrom = (
  random: Random,
  rules = random.some([0, 1, 2, 3], 4).map(() => ruleOf(random)),
): Policy =>
  policyOf(rules, {
    overrides: {
      agents: { build: overridesOf(random) },
      subagents: { helper: overridesOf(random) },
    },
  })

describe('whatever is asked', () => {
  test.each(seeds)('[POL26] an answer comes, and is the same twice (seed %i)', (seed) => {
    const random = randomOf(seed)
    for (let round = 0; round < 30; round += 1) {
      const asked = requestOf(random)
      const policy = policyFrom(random)
      const decided = evaluatePermission(asked, policy)
      expect(PermissionDecision.parse(decided)).toEqual(decided)
      expect(evaluatePermission(structuredClone(asked), structuredClone(policy))).toEqual(decided)
      const plan = planIsolation(asked, { enforceable: [], decision: decided })
      if (plan.strategy !== 'denied') expect(mustAsk(plan)).toBe(true)
    }
  })

  test.each(seeds)('[POL5] a subagent never loosens (seed %i)', (seed) => {
    const random = randomOf(seed)
    for (let round = 0; round < 30; round += 1) {
      const asked = requestOf(random)
      const policy = policyFrom(random)
      const agent = overridesOf(random)
      const parent = evaluatePermission(asked, policy, { overrides: { agent } })
      const child = evaluatePermission(asked, policy, {
        overrides: { agent, subagent: overridesOf(random) },
      })
      expect(strictness[child.decision]).toBeGreaterThanOrEqual(strictness[parent.decision])
    }
  })

  test.each(seeds)('[POL6] one more rule that denies never loosens (seed %i)', (seed) => {
    const random = randomOf(seed)
    for (let round = 0; round < 30; round += 1) {
      const asked = requestOf(random)
      const policy = policyFrom(random)
      const at = random.below(policy.rules.length + 1)
      const [deny] = policyOf([ruleOf(random, 'deny')]).rules
      if (!deny) throw new Error('No rule')
      const more = { ...policy, rules: policy.rules.toSpliced(at, 0, deny) }
      const overrides = { agent: overridesOf(random) }
      const before = evaluatePermission(asked, policy, { overrides })
      const after = evaluatePermission(asked, more, { overrides })
      expect(strictness[after.decision]).toBeGreaterThanOrEqual(strictness[before.decision])
    }
  })

  test.each(seeds)(
    '[POL3] no override moves the boundary, none allows a risk or a secret (seed %i)',
    (seed) => {
      const random = randomOf(seed)
      for (let round = 0; round < 30; round += 1) {
        const asked = requestOf(random)
        const overrides = { agent: overridesOf(random), subagent: overridesOf(random) }
        for (const policy of [operationDefault, sandboxDefault]) {
          const { decision } = evaluatePermission(asked, policy, { overrides })
          if (asked.paths.some((path) => path === '/' || path === '/etc/x'))
            expect(decision).toBe('deny')
          if (asked.risks.length > 0) expect(decision).not.toBe('allow')
          if (asked.category === 'secrets') expect(decision).not.toBe('allow')
          if (asked.category === 'read' && asked.paths.includes(`${root}/.env`))
            expect(decision).not.toBe('allow')
        }
      }
    },
  )

  test.each(seeds)('[POL25] a policy over its own history: no difference (seed %i)', (seed) => {
    const random = randomOf(seed)
    const policy = policyFrom(random)
    const recorded = Array.from({ length: 40 }, (_, seq) => {
      const asked = requestOf(random)
      const overrides = { agent: overridesOf(random), subagent: overridesOf(random) }
      return {
        runId: 'run_1',
        seq,
        request: asked,
        overrides,
        decision: evaluatePermission(asked, policy, { overrides }),
      }
    })
    const stored = JSON.parse(JSON.stringify(recorded)) as typeof recorded
    expect(replayDecisions(stored, policy)).toMatchObject({ total: 40, same: 40, rows: [] })
  })
})

const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`
const escaped = (text: string) => text.replaceAll(/["\\$`]/g, String.raw`\$&`)

/** Each puts a command somewhere else in a script, and it is run there all the same. */
const wraps: ((command: string) => string)[] = [
  (command) => `sh -c ${quoted(command)}`,
  (command) => `bash -lc "${escaped(command)}"`,
  (command) => `env A=1 sh -c ${quoted(command)}`,
  (command) => `eval ${quoted(command)}`,
  (command) => `echo $( ${command} )`,
  (command) => `echo "$( ${command} )"`,
  (command) => `( ${command} )`,
  (command) => `{ ${command}\n}`,
  (command) => `ls && { ${command}\n}`,
  (command) => `true | { ${command}\n}`,
  (command) => `if :; then ${command}\nfi`,
  (command) => `for i in 1 2; do ${command}\ndone`,
  (command) => `f() { ${command}\n}`,
  (command) => `cat <( ${command} )`,
  (command) => `x=$( ${command} ) ls`,
  (command) => `[[ -n "$( ${command} )" ]]`,
  (command) => `sh <<'END_${command.length}'\n${command}\nEND_${command.length}`,
  (command) => `find . -exec sh -c ${quoted(command)} \\;`,
  (command) => `ls | xargs -n1 sh -c ${quoted(command)}`,
  (command) => `timeout 5 bash -c ${quoted(command)}`,
  (command) => `trap ${quoted(command)} EXIT`,
  (command) => `echo ${quoted(command)} | sh`,
  (command) => `git submodule foreach ${quoted(command)}`,
]

describe('however deep it is hidden', () => {
  test.each(seeds)('[POL8] a command in scripts in scripts is found (seed %i)', (seed) => {
    const random = randomOf(seed)
    for (let round = 0; round < 25; round += 1) {
      const [inner, worst] = random.pick([
        ['rm -rf build', 'ask'],
        ['cat /etc/passwd', 'deny'],
        ['printenv', 'deny'],
      ] as const)
      let command: string = inner
      for (let depth = random.below(5); depth >= 0; depth -= 1)
        command = random.pick(wraps)(command)
      const { decision, reason } = decideCommand(command)
      // Unless it is nested too deep to be read, the answer is that of the command itself.
      if (!reason.includes('ambiguous')) expect([command, decision]).toEqual([command, worst])
      expect([command, decision]).not.toEqual([command, 'allow'])
    }
  })

  test('[POL8] one wrap at a time, without any doubt', () => {
    for (const wrap of wraps) {
      expect([wrap('x'), decideCommand(wrap('cat /etc/passwd')).rule]).toEqual([
        wrap('x'),
        'boundary',
      ])
      expect(decideCommand(wrap('npm test'))).toMatchObject({ decision: 'allow' })
    }
  })

  test.each(seeds)('[POL26] no text throws (seed %i)', (seed) => {
    const random = randomOf(seed)
    for (let round = 0; round < 20; round += 1) {
      const text = Array.from({ length: random.below(40) }, () =>
        String.fromCharCode(random.pick([32 + random.below(95), random.below(0x3000), 10])),
      ).join('')
      for (const tool of ['bash', 'read', 'apply_patch', 'webfetch', 'glob']) {
        const input = {
          command: text,
          filePath: text,
          patchText: `*** Add File: ${text}`,
          url: text,
          pattern: text,
          path: text,
        }
        expect(Decision.options).toContain(
          evaluatePermission(toolRequest(tool, input), sandboxDefault).decision,
        )
      }
    }
  })
})
