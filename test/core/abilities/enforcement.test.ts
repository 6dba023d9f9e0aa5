import { describe, expect, it } from 'vitest'
import type { AbilityEnforcement } from '../../../src/contract/ability.ts'
import {
  enforcementRefusal,
  type EnforcedAbility,
  type EnforcedStep,
  strictestEnforcement,
} from '../../../src/core/abilities/enforcement.ts'

const turn = 'trn_own'
const stepOf = (type: EnforcedStep['type'], more: Partial<EnforcedStep> = {}): EnforcedStep => ({
  ...{ id: 'one', type, turnId: null, tools: null },
  ...more,
})

/** In the order of the columns below. */
const situations: readonly (readonly [string, EnforcedStep | null])[] = [
  ['script', stepOf('script')],
  ['approval', stepOf('approval')],
  ['workflow', stepOf('workflow')],
  ['between steps', null],
  ['skill', stepOf('skill', { turnId: turn })],
  ['agent', stepOf('agent', { turnId: turn })],
  ['agent with bash and gh_pr', stepOf('agent', { turnId: turn, tools: ['bash', 'gh_pr'] })],
  ['agent, not yet begun', stepOf('agent')],
  ['agent, another turn', stepOf('agent', { turnId: 'trn_other' })],
]

/** A dot passes, an x is refused: strict, then normal. loose refuses nothing. */
const table: Record<string, string> = {
  read: '......... .........',
  glob: '......... .........',
  grep: '......... .........',
  list: '......... .........',
  todoread: '......... .........',
  lsp_hover: '......... .........',
  lsp_diagnostics: '......... .........',
  lsp_document_symbols: '......... .........',
  ability_list: '......... .........',
  ability_status: '......... .........',
  ability_cancel: '......... .........',
  ability_agent: '......... .........',
  ability_validate: '......... .........',
  'ability.status': '......... .........',
  invalid: '......... .........',
  webfetch: 'xxxx..xxx .........',
  websearch: 'xxxx..xxx .........',
  codesearch: 'xxxx..xxx .........',
  todowrite: 'xxxx..xxx .........',
  question: 'xxxx..xxx .........',
  skill: 'xxxx..xxx .........',
  memory_search: 'xxxx..xxx .........',
  verify: 'xxxx..xxx .........',
  automation_complete: 'xxxx..xxx .........',
  bash: 'xxxx...xx xxxx...xx',
  gh_pr: 'xxxx...xx xxxx...xx',
  network: 'xxxx...xx xxxx...xx',
  write: 'xxxx..xxx xxxx..xxx',
  edit: 'xxxx..xxx xxxx..xxx',
  multiedit: 'xxxx..xxx xxxx..xxx',
  apply_patch: 'xxxx..xxx xxxx..xxx',
  task: 'xxxx..xxx xxxx..xxx',
  ability_run: 'xxxx..xxx xxxx..xxx',
  memory_save: 'xxxx..xxx xxxx..xxx',
  save_snapshot: 'xxxx..xxx xxxx..xxx',
  lsp_rename: 'xxxx..xxx xxxx..xxx',
  mcp_server_tool: 'xxxx..xxx xxxx..xxx',
  'of nobody': 'xxxx..xxx xxxx..xxx',
  Read: 'xxxx..xxx xxxx..xxx',
}

const activeAt = (level: AbilityEnforcement, step: EnforcedStep | null): EnforcedAbility => ({
  ...{ ability: 'deploy', level, progress: '1/3', steps: step === null ? [] : [step] },
})

describe('what an ability lets an agent do', () => {
  it('[ABX1] passes what reads, and beside that what its step is for', () => {
    const found = Object.fromEntries(
      Object.keys(table).map((tool) => {
        const row = (level: AbilityEnforcement) =>
          situations.map(([, step]) =>
            enforcementRefusal(activeAt(level, step), { tool, turnId: turn }) === null ? '.' : 'x',
          )
        return [tool, `${row('strict').join('')} ${row('normal').join('')}`]
      }),
    )
    expect(found).toEqual(table)
    expect(Object.keys(table).length).toBeGreaterThanOrEqual(24)
  })

  it('[ABX1] is advice only where the ability is loose, and nothing where none runs', () => {
    for (const tool of Object.keys(table)) {
      for (const [, step] of situations)
        expect(enforcementRefusal(activeAt('loose', step), { tool, turnId: turn })).toBeNull()
      expect(enforcementRefusal(null, { tool, turnId: turn })).toBeNull()
    }
  })

  it('[ABX1] a question of no turn has no part in an agent step that waits for its own', () => {
    const step = stepOf('agent')
    expect(
      enforcementRefusal(activeAt('strict', step), { tool: 'bash', turnId: null }),
    ).not.toBeNull()
  })

  it('[ABX2] tells what runs, what works meanwhile, and how to leave', () => {
    const at = (step: EnforcedStep | null, level: AbilityEnforcement = 'strict') =>
      enforcementRefusal(activeAt(level, step), { tool: 'write', turnId: turn })
    expect(at(stepOf('script'))).toBe(
      'The ability "deploy" is at step "one" (script), 1/3 steps done: only reading and status tools work until it is over. End your turn or look with ability_status; ability_cancel asks a person to end it',
    )
    expect(at(stepOf('approval'), 'normal')).toBe(
      'The ability "deploy" is at step "one" (approval), 1/3 steps done: a person has to answer first. End your turn or look with ability_status; ability_cancel ends it, which is recorded',
    )
    expect(at(null)).toContain('is between two steps')
    expect(at(stepOf('agent', { turnId: turn, tools: ['bash'] }))).toContain('which has only bash:')
    expect(at(stepOf('agent', { turnId: turn, tools: [] }))).toContain('which has only no tools:')
  })

  it('[ABX1] of steps that run together the one whose turn asks decides', () => {
    const steps = [stepOf('script'), stepOf('agent', { id: 'two', turnId: turn, tools: ['bash'] })]
    const active = { ...activeAt('strict', null), steps }
    expect(enforcementRefusal(active, { tool: 'bash', turnId: turn })).toBeNull()
    expect(enforcementRefusal(active, { tool: 'bash', turnId: 'trn_other' })).toContain(
      'at step "one" (script) and "two" (agent)',
    )
  })

  it.each<[AbilityEnforcement[], AbilityEnforcement]>([
    [['loose'], 'loose'],
    [['loose', 'normal'], 'normal'],
    [['strict', 'loose'], 'strict'],
    [['normal', 'loose', 'strict'], 'strict'],
  ])('[ABX1] of %j together %s counts', (levels, strictest) => {
    expect(strictestEnforcement(levels)).toBe(strictest)
  })
})
