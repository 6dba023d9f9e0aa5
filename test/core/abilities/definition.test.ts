import { describe, expect, test } from 'vitest'
import type { AbilityProblem } from '../../../src/contract/ability.ts'
import {
  definitionNameOfPath,
  parseAbilityDefinition,
} from '../../../src/core/abilities/definition.ts'

const step = (more = '') => `  - id: a\n    type: script\n    run: "true"\n${more}`
const ability = (steps: string, more = '') => `name: x\ndescription: d\n${more}steps:\n${steps}`

function problems(source: string, path: string | null = null): AbilityProblem[] {
  const parsed = parseAbilityDefinition(source, path)
  if ('ability' in parsed) throw new Error('It was read')
  return parsed.errors
}

function read(source: string, path: string | null = null) {
  const parsed = parseAbilityDefinition(source, path)
  if ('errors' in parsed) throw new Error(JSON.stringify(parsed.errors))
  return parsed
}

const deploy = `
name: safe-deploy
description: Deploy with safety checks
version: 1.0.0
triggers:
  keywords: [deploy, ship it]
  patterns: ['deploy.*to.*prod']
inputs:
  version: { type: string, required: true, pattern: '^v\\d+\\.\\d+\\.\\d+$', description: Such as v1.2.3 }
  environment: { type: string, required: true, enum: [staging, production], default: staging }
steps:
  - { id: test, type: script, run: npm test, validation: { exit_code: 0 }, on_failure: stop }
  - { id: build, type: script, run: 'npm run build -- --env={{inputs.environment}}', needs: [test], timeout: 5m }
  - { id: review, type: agent, agent: reviewer, prompt: 'Look at {{steps.build.output}}', needs: [build] }
  - { id: approve, type: approval, when: 'inputs.environment == "production"', prompt: 'Deploy {{inputs.version}}?', needs: [review] }
  - { id: deploy, type: script, run: './deploy.sh {{inputs.environment}} {{inputs.version}}', needs: [approve] }
settings: { timeout: 30m, enforcement: strict, on_failure: stop }
`

describe('reading an ability', () => {
  test('[ABL1] [ABL4] a whole one is read with its defaults', () => {
    const { ability: found, warnings } = read(deploy)
    expect(warnings).toEqual([])
    expect(found.settings).toEqual({
      ...{
        timeout: '30m',
        parallel: false,
        enforcement: 'strict',
        on_failure: 'stop',
        approval: 'none',
        network: false,
      },
    })
    expect(found.steps[4]).toMatchObject({ id: 'deploy', needs: ['approve'], env: {} })
    expect(found.hooks).toEqual({ before: [], after: [] })
  })

  test.each<[string, string, string, AbilityProblem['code'], number]>([
    ['no step', 'name: x\ndescription: d\nsteps: []\n', 'steps', 'SCHEMA_ERROR', 3],
    [
      'a step that is nothing',
      'name: x\ndescription: d\nsteps: [~]\n',
      'steps.0',
      'SCHEMA_ERROR',
      3,
    ],
    [
      'a step that is a text',
      'name: x\ndescription: d\nsteps: [a]\n',
      'steps.0',
      'SCHEMA_ERROR',
      3,
    ],
    ['no name and no path', `description: d\nsteps:\n${step()}`, 'name', 'SCHEMA_ERROR', 1],
    ['no description', `name: x\nsteps:\n${step()}`, 'description', 'SCHEMA_ERROR', 1],
    [
      'a name in capitals',
      `name: Deploy\ndescription: d\nsteps:\n${step()}`,
      'name',
      'SCHEMA_ERROR',
      1,
    ],
    [
      'a name that ends with a slash',
      `name: a/\ndescription: d\nsteps:\n${step()}`,
      'name',
      'SCHEMA_ERROR',
      1,
    ],
    ['YAML that is none', 'name: [x\n', '', 'SCHEMA_ERROR', 2],
    [
      'an unknown key in a step',
      ability(step('    shell: zsh\n')),
      'steps.0.shell',
      'SCHEMA_ERROR',
      7,
    ],
    [
      'an unknown key in settings',
      ability(step(), 'settings: { speed: 1 }\n'),
      'settings.speed',
      'SCHEMA_ERROR',
      3,
    ],
    [
      'an unknown key in an input',
      ability(step(), 'inputs:\n  x: { kind: string }\n'),
      'inputs.x.kind',
      'SCHEMA_ERROR',
      4,
    ],
    [
      'an unknown key in triggers',
      ability(step(), 'triggers: { words: [a] }\n'),
      'triggers.words',
      'SCHEMA_ERROR',
      3,
    ],
    [
      'an unknown key in hooks',
      ability(step(), 'hooks: { during: [a] }\n'),
      'hooks.during',
      'SCHEMA_ERROR',
      3,
    ],
    [
      'an unknown key in a validation',
      ability(step('    validation: { exit: 0 }\n')),
      'steps.0.validation.exit',
      'SCHEMA_ERROR',
      7,
    ],
    [
      'a step of no type',
      ability('  - id: a\n    prompt: hi\n'),
      'steps.0.type',
      'SCHEMA_ERROR',
      4,
    ],
    [
      'a step of two types',
      ability('  - id: a\n    run: hi\n    agent: b\n'),
      'steps.0.type',
      'SCHEMA_ERROR',
      4,
    ],
    ['two steps of one id', ability(step() + step()), 'steps.1.id', 'DUPLICATE_ID', 7],
    [
      'a need that is no step',
      ability(step('    needs: [b]\n')),
      'steps.0.needs.0',
      'MISSING_DEPENDENCY',
      7,
    ],
    [
      'a step that needs itself',
      ability(step('    needs: [a]\n')),
      'steps.0.needs',
      'CIRCULAR_DEPENDENCY',
      7,
    ],
    [
      'a pattern that RE2 does not have',
      ability(step(), "triggers: { patterns: ['(?=a)b'] }\n"),
      'triggers.patterns.0',
      'INVALID_REGEX',
      3,
    ],
    [
      'a pattern that repeats without bounds',
      ability(step(), "triggers: { patterns: ['((a{50}){50}){50}'] }\n"),
      'triggers.patterns.0',
      'INVALID_REGEX',
      3,
    ],
    [
      'a pattern of an input',
      ability(step(), "inputs:\n  x: { pattern: '[' }\n"),
      'inputs.x.pattern',
      'INVALID_REGEX',
      4,
    ],
    [
      'a default that does not fit',
      ability(step(), 'inputs:\n  x: { type: number, default: many }\n'),
      'inputs.x.default',
      'INVALID_DEFAULT',
      4,
    ],
    [
      'a duration',
      ability(step('    timeout: 5 minutes\n')),
      'steps.0.timeout',
      'INVALID_DURATION',
      7,
    ],
    [
      'the duration of the whole',
      ability(step(), 'settings: { timeout: soon }\n'),
      'settings.timeout',
      'INVALID_DURATION',
      3,
    ],
    ['a condition', ability(step('    when: inputs.x\n')), 'steps.0.when', 'INVALID_CONDITION', 7],
    [
      'a script',
      ability('  - { id: a, run: "{{inputs.x}} now" }\n', 'inputs: { x: {} }\n'),
      'steps.0.run',
      'UNSAFE_PLACEHOLDER',
      5,
    ],
    [
      'a value in a variable that a shell runs',
      `name: x\ndescription: d\ninputs: { v: {} }\nsteps:\n  - id: a\n    run: ls\n    env: { OK: '{{inputs.v}}', PATH: /bin, BASH_ENV: '{{inputs.v}}' }\n`,
      'steps.0.env.BASH_ENV',
      'UNSAFE_PLACEHOLDER',
      7,
    ],
    [
      'a hook',
      ability(step(), 'inputs: { x: {} }\nhooks: { before: ["eval {{inputs.x}}"] }\n'),
      'hooks.before.0',
      'UNSAFE_PLACEHOLDER',
      4,
    ],
    [
      'an input that there is not',
      ability('  - { id: a, agent: b, prompt: "{{inputs.y}}" }\n'),
      'steps.0.prompt',
      'UNKNOWN_PLACEHOLDER',
      4,
    ],
    [
      'an output of a later step',
      ability(`  - { id: z, agent: b, prompt: "{{steps.a.output}}" }\n${step()}`),
      'steps.0.prompt',
      'UNKNOWN_PLACEHOLDER',
      4,
    ],
    [
      'a hook that speaks of outputs before',
      ability(step(), 'hooks: { before: ["echo {{steps.a.output}}"] }\n'),
      'hooks.before.0',
      'UNKNOWN_PLACEHOLDER',
      3,
    ],
    [
      'a hook that speaks of no input after',
      ability(step(), 'hooks: { after: ["echo {{steps.a.output}} {{inputs.none}}"] }\n'),
      'hooks.after.0',
      'UNKNOWN_PLACEHOLDER',
      3,
    ],
  ])('[ABL2] [ABL3] %s is refused at its place', (_, source, path, code, line) => {
    expect(problems(source)[0]).toMatchObject({ path, code, line })
  })

  test('[ABL2] one file tells of all its mistakes, from the top', () => {
    const found = problems(ability(`${step('    needs: [b]\n    timeout: x\n')}${step()}`))
    expect(found.map(({ code }) => code)).toEqual([
      'MISSING_DEPENDENCY',
      'INVALID_DURATION',
      'DUPLICATE_ID',
    ])
  })

  test('[ABL3] a cycle is shown with arrows', () => {
    const parsed = parseAbilityDefinition(
      ability(
        ['a', 'b', 'c']
          .map((id, at) => `  - { id: ${id}, run: x, needs: [${['b', 'c', 'a'][at]}] }\n`)
          .join(''),
      ),
      null,
    )
    expect('errors' in parsed && parsed.errors[0]?.message).toBe(
      'Steps need each other: a → b → c → a',
    )
  })

  test('[ABL4] a step without a type has that of its one telling key', () => {
    const steps =
      '  - { id: a, run: x }\n  - { id: b, agent: r, prompt: p }\n  - { id: c, skill: s }\n  - { id: d, workflow: w }\n'
    expect(read(ability(steps)).ability.steps.map(({ type }) => type)).toEqual([
      'script',
      'agent',
      'skill',
      'workflow',
    ])
  })

  test('[ABL4] keys that nobody reads warn at the top; keys of one’s own begin with x-', () => {
    const { warnings } = read(ability(step('    x-team: web\n'), 'tags: [a]\nx-owner: b\n'))
    expect(warnings).toEqual(['Nobody reads the field "tags"'])
  })

  test.each([
    ['.opencode/abilities/deploy/production/ability.yaml', 'deploy/production'],
    ['.opencode/abilities/test.yaml', 'test'],
    ['.opencode/abilities/a/b/c/d/ability.yml', 'a/b/c/d'],
    ['abilities/a/lint.yml', 'a/lint'],
    ['deploy/ability.yaml', 'deploy'],
    ['ability.yaml', null],
    ['Deploy/ability.yaml', null],
    ['', null],
  ])('[ABL5] %s is called %s', (path, name) => {
    expect(definitionNameOfPath(path)).toBe(name)
  })

  test('[ABL5] a file without a name is called by its path, and a name of its own wins', () => {
    const unnamed = `description: d\nsteps:\n${step()}`
    expect(read(unnamed, '.opencode/abilities/deploy/ability.yaml').ability.name).toBe('deploy')
    expect(read(`name: other\n${unnamed}`, 'deploy/ability.yaml').ability.name).toBe('other')
    expect(problems(unnamed, 'Deploy.yaml')).toMatchObject([{ path: 'name', code: 'SCHEMA_ERROR' }])
  })
})

describe('hostile files', () => {
  test.each<[string, () => string]>([
    [
      'aliases that multiply',
      () => `a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n${ability(step())}`,
    ],
    ['ten megabytes', () => ability(step(), `x-a: "${'a'.repeat(10_000_000)}"\n`)],
    [
      'ten thousand steps',
      () =>
        ability(Array.from({ length: 10_000 }, (_, at) => `  - { id: s${at}, run: x }\n`).join('')),
    ],
    [
      'more steps than there may be',
      () => ability(Array.from({ length: 1001 }, (_, at) => `  - {id: s${at}, run: x}\n`).join('')),
    ],
    ['deep nesting', () => ability(step(), `x-a: ${'['.repeat(5000)}${']'.repeat(5000)}\n`)],
    [
      'a deep condition',
      () => ability(step(`    when: "${'('.repeat(900)}true == true${')'.repeat(900)}"\n`)),
    ],
    ['a self-reference', () => `x-a: &a { b: *a }\n${ability(step())}`],
    ['a tag', () => ability(step(), 'x-a: !!js/function "x"\n')],
  ])('[ABL7] %s: refused with a code, in bounded time', (_, source) => {
    expect(problems(source()).length).toBeGreaterThan(0)
  })

  test('[ABL7] patterns made for backtracking take no time', () => {
    const { ability: found } = read(
      ability(step(), "triggers: { patterns: ['^(a+)+$', '(a|a)*b', '(.*a){20}'] }\n"),
    )
    expect(found.triggers?.patterns).toHaveLength(3)
  })

  test('[ABL7] a thousand steps in a row are read', () => {
    const steps = Array.from(
      { length: 1000 },
      (_, at) => `  - { id: s${at}, run: x, needs: [${at === 0 ? '' : `s${at - 1}`}] }\n`,
    )
    expect(read(ability(steps.toReversed().join(''))).ability.steps).toHaveLength(1000)
  })
})
