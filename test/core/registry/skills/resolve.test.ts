import { describe, expect, test } from 'vitest'
import type { SkillState, SkillTarget, SkillVersion } from '../../../../src/contract/skill.ts'
import {
  type RegisteredSkill,
  resolveRegisteredSkills,
  type ResolveQuery,
} from '../../../../src/core/registry/skills/resolve.ts'
import { random, seedsOf } from '../../../support/random.ts'

const nothing: ResolveQuery = {
  scope: 'project',
  skills: [],
  agent: null,
  workflow: null,
  phase: null,
  adapter: null,
}
const version = (skillId: string, number: number, state: SkillState = 'active') =>
  ({
    skillId,
    version: number,
    state,
    description: 'd',
    compatibility: '',
    source: { kind: 'inline', content: `${skillId} ${number}` },
    sha256: 'a'.repeat(64),
    createdBy: 'key',
    createdAt: 0,
  }) as SkillVersion

function skill(name: string, more: Partial<RegisteredSkill> = {}): RegisteredSkill {
  const id = `skl_${more.scope ?? 'project'}-${name}`
  return {
    ...{ id, scope: 'project', name, currentVersion: 1, attachments: [] },
    versions: [version(id, 1)],
    ...more,
  }
}
const to = (target: string, pinned: number | null = null) => {
  const [targetType, targetKey] = target.split('/') as [SkillTarget['targetType'], string]
  return { targetType, targetKey, version: pinned }
}
const coder = (...names: string[]): ResolveQuery['agent'] => ({
  name: 'coder',
  mode: 'agent',
  skills: names.map((name) => ({ name })),
})
const seen = (query: Partial<ResolveQuery>, registered: RegisteredSkill[]) => {
  const { skills, skipped } = resolveRegisteredSkills({ ...nothing, ...query }, registered)
  return {
    skills: skills.map(({ name, version: number, sources }) =>
      [`${name}@${number}`, ...sources.map(({ kind, key }) => `${kind}/${key}`)].join(' '),
    ),
    skipped: skipped.map(({ name, reason, source }) => `${name} ${reason} ${source.kind}`),
  }
}

describe('[SKILL8] the order of resolution', () => {
  const all = [
    skill('z-adapter', { attachments: [to('provider-adapter/opencode')] }),
    skill('y-phase', { attachments: [to('workflow-phase/apply')] }),
    skill('x-whole', { attachments: [to('workflow-phase/sdd:apply')] }),
    skill('w-attached', { attachments: [to('agent/coder')] }),
    skill('b-defined'),
    skill('a-defined'),
    skill('v-asked'),
    skill('other', { attachments: [to('agent/other'), to('subagent/coder')] }),
  ]
  const query = {
    skills: [{ name: 'v-asked' }],
    agent: coder('b-defined', 'a-defined'),
    workflow: 'sdd',
    phase: 'apply',
    adapter: 'opencode',
  }

  test('asked for, definition as written, agent, phase of the workflow, phase, adapter', () => {
    expect(seen(query, all)).toEqual({
      skills: [
        'v-asked@1 request/',
        'b-defined@1 definition/coder',
        'a-defined@1 definition/coder',
        'w-attached@1 agent/coder',
        'x-whole@1 workflow-phase/sdd:apply',
        'y-phase@1 workflow-phase/apply',
        'z-adapter@1 provider-adapter/opencode',
      ],
      skipped: [],
    })
  })

  test('attachments of one target: the project’s by name, then one’s own', () => {
    const attachments = [to('provider-adapter/opencode')]
    const registered = [
      skill('c', { attachments, scope: 'personal' }),
      skill('b', { attachments }),
      skill('d', { attachments }),
      skill('a', { attachments, scope: 'personal' }),
    ]
    const { skills } = seen({ adapter: 'opencode' }, registered)
    expect(skills.map((one) => one.slice(0, 1))).toEqual(['b', 'd', 'a', 'c'])
  })

  test('many attachments to one target come by name, in whatever order they were written', () => {
    const attachments = [to('provider-adapter/opencode')]
    const names = Array.from({ length: 40 }, (_, n) => `s${(n * 17) % 40}`)
    const registered = names.map((name) => skill(name, { attachments }))
    const { skills } = resolveRegisteredSkills({ ...nothing, adapter: 'opencode' }, registered)
    expect(skills.map(({ name }) => name)).toEqual(names.toSorted())
  })

  test('a phase without its workflow, a workflow without a phase, another adapter', () => {
    const named = (asked: Partial<ResolveQuery>) => seen(asked, all).skills
    expect(named({ phase: 'apply' })).toEqual(['y-phase@1 workflow-phase/apply'])
    expect(named({ workflow: 'sdd' })).toEqual([])
    const odd = skill('odd', { attachments: [to('workflow-phase/null:apply')] })
    expect(seen({ phase: 'apply' }, [odd]).skills).toEqual([])
    expect(named({ workflow: 'sdd', phase: 'verify', adapter: 'claude' })).toEqual([])
  })

  test('a subagent gets what is attached to the subagent, not to the agent of its name', () => {
    const agent = { name: 'coder', mode: 'subagent' as const, skills: [] }
    expect(seen({ agent }, all).skills).toEqual(['other@1 subagent/coder'])
  })

  test('twice: once, where it was first seen, with all its sources', () => {
    const attachments = [to('agent/coder'), to('provider-adapter/opencode')]
    const registered = [skill('b', { attachments }), skill('a')]
    const twice = seen({ agent: coder('a', 'b', 'a'), adapter: 'opencode' }, registered)
    expect(twice).toEqual({
      skills: [
        'a@1 definition/coder definition/coder',
        'b@1 definition/coder agent/coder provider-adapter/opencode',
      ],
      skipped: [],
    })
  })

  test('the version of the first source counts, and each source says which it names', () => {
    const id = 'skl_project-a'
    const registered = [
      skill('a', {
        currentVersion: 2,
        versions: [version(id, 1), version(id, 2)],
        attachments: [to('agent/coder', 1), to('provider-adapter/opencode')],
      }),
    ]
    const asked = { ...nothing, agent: coder(), adapter: 'opencode' }
    expect(resolveRegisteredSkills(asked, registered).skills).toMatchObject([
      { version: 1, sources: [{ version: 1 }, { version: null }] },
    ])
  })
})

describe('[SKILL9] what is skipped', () => {
  const id = 'skl_project-a'
  const broken: [string, Partial<RegisteredSkill> | null, number | null][] = [
    ['skill_missing', null, null],
    ['no_current_version', { currentVersion: null, versions: [] }, null],
    ['version_draft', { versions: [version(id, 1, 'draft')] }, null],
    ['version_deprecated', { versions: [version(id, 1, 'deprecated')] }, null],
    ['version_archived', { versions: [version(id, 1, 'archived')] }, null],
    ['version_missing', {}, 7],
    ['version_draft', { versions: [version(id, 1), version(id, 2, 'draft')] }, 2],
  ]

  test.each(broken)('%s, and the rest is given', (reason, more, wanted) => {
    const registered = [skill('b'), ...(more ? [skill('a', more)] : [])]
    const skills = [{ name: 'a', version: wanted }, { name: 'b' }]
    expect(seen({ skills }, registered)).toEqual({
      skills: ['b@1 request/'],
      skipped: [`a ${reason} request`],
    })
  })

  test('an attachment to a version that may not be given, while another source gives the skill', () => {
    const registered = [skill('a', { attachments: [to('agent/coder', 9)] })]
    expect(seen({ agent: coder('a') }, registered)).toEqual({
      skills: ['a@1 definition/coder'],
      skipped: ['a version_missing agent'],
    })
  })

  test('a name is looked up in its own scope and in no other', () => {
    const registered = [skill('a'), skill('b', { scope: 'personal' })]
    const skills = [{ name: 'a' }, { name: 'b' }]
    expect(seen({ skills }, registered).skipped).toEqual(['b skill_missing request'])
    expect(seen({ skills, scope: 'personal' }, registered).skipped).toEqual([
      'a skill_missing request',
    ])
    const spelt = [{ name: 'b', scope: 'personal' as const }]
    expect(seen({ skills: spelt }, registered).skills).toEqual(['b@1 request/'])
  })

  test('two of one name: the second has no folder of its own', () => {
    const registered = [skill('a'), skill('a', { scope: 'personal' })]
    const skills = [{ name: 'a' }, { name: 'a', scope: 'personal' as const }]
    expect(seen({ skills }, registered)).toEqual({
      skills: ['a@1 request/'],
      skipped: ['a name_taken request'],
    })
  })

  test('an agent is one of its scope: what is attached in the other is not its', () => {
    const registered = [
      skill('a', { attachments: [to('agent/coder')] }),
      skill('b', { attachments: [to('agent/coder')], scope: 'personal' }),
    ]
    expect(seen({ agent: coder() }, registered).skills).toEqual(['a@1 agent/coder'])
    expect(seen({ agent: coder(), scope: 'personal' }, registered).skills).toEqual([
      'b@1 agent/coder',
    ])
  })
})

test.each(seedsOf(3, 50))(
  '[SKILL8] [SKILL9] random registries: total, in order, once, and whatever order rows come in (seed %i)',
  (seed) => {
    const draw = random(seed)
    const pick = <T>(values: readonly T[]): T => values[Math.floor(draw() * values.length)] as T
    const names = ['a', 'b', 'c', 'd', 'e', 'f']
    const targets = ['agent/coder', 'subagent/coder', 'workflow-phase/sdd:apply']
    targets.push('workflow-phase/apply', 'provider-adapter/opencode')
    const some = <T>(values: readonly T[]) => values.filter(() => draw() < 0.5)
    const maybe = (): number | null => pick([null, null, 1, 2, 3])
    for (let round = 0; round < 100; round++) {
      const registered = some(names).flatMap((name) =>
        some(['project', 'personal'] as const).map((scope) => {
          const id = `skl_${scope}-${name}`
          const states = ['draft', 'active', 'active', 'deprecated', 'archived'] as const
          return skill(name, {
            ...{ scope, currentVersion: maybe() },
            versions: some([1, 2]).map((number) => version(id, number, pick(states))),
            attachments: some(targets).map((target) => to(target, maybe())),
          })
        }),
      )
      const references = () => some(names).map((name) => ({ name, version: maybe() }))
      const query: ResolveQuery = {
        scope: pick(['project', 'personal']),
        skills: references(),
        agent: pick([
          null,
          { ...coder()!, mode: pick(['agent', 'subagent']), skills: references() },
        ]),
        workflow: pick([null, 'sdd']),
        phase: pick([null, 'apply']),
        adapter: pick([null, 'opencode']),
      }
      const answer = resolveRegisteredSkills(query, registered)
      const shuffled = registered.toSorted(() => draw() - 0.5)
      expect(resolveRegisteredSkills(query, shuffled)).toEqual(answer)

      const asked = query.skills.length + (query.agent?.skills.length ?? 0)
      const given = answer.skills.reduce((sum, { sources }) => sum + sources.length, 0)
      expect(given + answer.skipped.length).toBeGreaterThanOrEqual(asked)
      expect(new Set(answer.skills.map(({ name }) => name)).size).toBe(answer.skills.length)
      const order = [
        'request',
        'definition',
        query.agent?.mode,
        'workflow-phase',
        'provider-adapter',
      ]
      const ranks = answer.skills.map(({ sources }) => order.indexOf(sources[0]?.kind))
      expect(ranks).toEqual(ranks.toSorted((a, b) => a - b))
      for (const { skillId, version: number } of answer.skills) {
        const row = registered.find(({ id }) => id === skillId)
        const stored = row?.versions.find((one) => one.version === number)
        expect(stored?.state).toBe('active')
      }
    }
  },
)
