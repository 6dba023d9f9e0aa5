import { beforeEach, describe, expect, test } from 'vitest'
import { AppError } from '../../src/contract/error.ts'
import { type HostSession, useHost } from '../support/host.ts'
import { useLibsql } from '../support/libsql.ts'

/** libSQL as all of the product sees it, until a test takes it away. */
const libsql = useLibsql()
let isAway = false
/** Only what is asked about phases gets no answer. */
let isWithoutPhases = false
/** How often a session has asked which phases there are. */
let looks = 0
const away = (): Promise<never> => Promise.reject(new AppError('storage_unavailable', 'Away'))
const db = () => {
  const real = libsql.db()
  return {
    all: <T extends object>(...given: Parameters<typeof real.all>): Promise<T[]> => {
      if (given[0].includes('select distinct change, phase from phase_artifacts')) looks += 1
      return isAway || (isWithoutPhases && given[0].includes('phase_artifacts'))
        ? away()
        : real.all<T>(...given)
    },
    batch: (...given: Parameters<typeof real.batch>) => (isAway ? away() : real.batch(...given)),
  }
}
const host = useHost({ db })
beforeEach(() => {
  isAway = false
  isWithoutPhases = false
  looks = 0
})

let made = 0
/** A project whose policy lets edits and commands through once this phase of a change is ready. */
async function gatedProject(sdd: object = { change: 'login', phase: 'apply-progress' }) {
  const project = `gated-${(made += 1)}`
  const rules = [{ id: 'apply', match: { category: ['edit', 'shell'] }, decision: 'allow', sdd }]
  const source = JSON.stringify({ name: 'gated', rules })
  await host().ok('PUT', '/v1/policies', { project, format: 'json', source })
  return project
}
const save = (project: string, phase: string, change = 'login') =>
  host().ok('PUT', `/v1/changes/${change}/phases/${phase}`, { project, content: phase })

async function begin(project: string): Promise<HostSession> {
  const session = await host().begin({ project })
  await session.prompt()
  return session
}
const edit = { filePath: 'src/main.ts', newString: 'b', oldString: 'a' }
const asks = async (session: HostSession, tool = 'edit', input: object = edit) =>
  session.agent.answerTo(await session.ask(tool, input))

describe('a policy that waits for a phase', () => {
  test('[SDD12] denies edits and commands until the phase is ready, and says what is missing', async () => {
    const project = await gatedProject()
    const session = await begin(project)
    for (const [tool, input] of [
      ['edit', edit],
      ['bash', { command: 'npm test' }],
    ] as const) {
      const answer = await asks(session, tool, input)
      expect(answer?.decision).toBe('deny')
      expect(answer?.reason).toBe(
        'Phase apply-progress of change "login" is not ready: save sdd/login/tasks first',
      )
    }
    // What the rule is not about goes on.
    expect((await asks(session, 'read', { filePath: 'src/main.ts' }))?.decision).toBe('allow')
    await save(project, 'proposal')
    expect((await asks(session))?.decision).toBe('deny')
    await save(project, 'tasks')
    expect((await asks(session))?.decision).toBe('allow')
    expect((await asks(session, 'bash', { command: 'npm test' }))?.decision).toBe('allow')
  })

  test('[SDD12] another project, another change or another organisation does not make it ready', async () => {
    const project = await gatedProject()
    const session = await begin(project)
    await save('elsewhere', 'tasks')
    await save(project, 'tasks', 'logout')
    const stranger = (await host().app.makeKey(await host().app.makeOrganisation(), 'admin')).secret
    const path = '/v1/changes/login/phases/tasks'
    await host().ok('PUT', path, { project, content: 'theirs' }, stranger)
    expect((await asks(session))?.decision).toBe('deny')
  })

  test('[SDD13] decides without libSQL, ready or not, also while it is away', async () => {
    const project = await gatedProject()
    const waiting = await begin(project)
    isAway = true
    expect((await asks(waiting))?.decision).toBe('deny')
    isAway = false
    await save(project, 'tasks')
    isAway = true
    expect((await asks(waiting))?.decision).toBe('allow')
    expect((await asks(waiting, 'bash', { command: 'npm test' }))?.decision).toBe('allow')
  })

  test('[SDD13] what it could not hear of is not ready; it looks again once libSQL is back', async () => {
    const project = await gatedProject()
    await save(project, 'tasks')
    isWithoutPhases = true
    const session = await begin(project)
    const answer = await asks(session)
    expect([answer?.decision, answer?.reason]).toEqual([
      'deny',
      'Phase apply-progress of change "login" is not ready: it is not known to be: the session looks when a turn begins',
    ])
    isWithoutPhases = false
    await host().live(30_000)
    expect((await asks(session))?.decision).toBe('allow')
  })

  test('[SDD13] another policy of a session that works is looked for at once', async () => {
    const project = await gatedProject({ change: 'other', phase: 'apply-progress' })
    await save(project, 'tasks')
    const session = await begin(project)
    expect((await asks(session))?.decision).toBe('deny')
    const sdd = { change: 'login', phase: 'apply-progress' }
    const rules = [{ id: 'apply', match: { category: ['edit'] }, decision: 'allow', sdd }]
    const source = JSON.stringify({ name: 'gated', rules })
    await host().ok('PUT', '/v1/policies', { project, format: 'json', source })
    await host().ok('POST', `${session.at}/policy`)
    await host().live(1000)
    expect((await asks(session))?.decision).toBe('allow')
  })

  test('[SDD13] after twenty tries it waits for the next turn, which looks again', async () => {
    const project = await gatedProject()
    await save(project, 'tasks')
    isWithoutPhases = true
    const session = await host().begin({ project })
    const before = looks
    const { id } = await session.prompt()
    await host().live(2 * 3_600_000)
    expect(looks - before).toBe(20)
    const answer = await asks(session)
    expect([answer?.decision, answer?.reason]).toEqual([
      ...['deny', expect.stringContaining('it is not known to be')],
    ])
    const { sql } = { sql: host().app.databaseOf(session.id) }
    expect(sql.all(`select 1 from deadlines where name = 'phases'`)).toEqual([])
    isWithoutPhases = false
    session.agent.endTurn(id)
    await host().live(1000)
    await session.prompt()
    await host().live(1000)
    expect((await asks(session))?.decision).toBe('allow')
  })

  test('[SDD13] it looks once for each turn, and never if no rule waits for a phase', async () => {
    const session = await host().begin({ project: await gatedProject() })
    await host().live(1000)
    const before = looks
    const { id } = await session.prompt()
    await host().ok('POST', `${session.at}/prompts`, { text: 'and that', steer: true })
    await asks(session)
    session.agent.usedTokens(id, { input: 5 })
    await host().live(60_000)
    expect((await host().ok('GET', `/v1/turns/${id}`)).tokens.input).toBe(5)
    expect(looks).toBe(before + 1)
    session.agent.endTurn(id)
    await host().live(1000)
    expect(looks).toBe(before + 1)
    await session.prompt()
    await host().live(1000)
    expect(looks).toBe(before + 2)
    await begin('nothing-waits')
    await host().live(60_000)
    expect(looks).toBe(before + 2)
  })

  test('[SDD13] only its own organisation tells it of phases', async () => {
    const session = await begin(await gatedProject())
    const { phases } = host().app.sessions.get(session.id)!.api
    const told = phases.saved({ organisationId: 'org_other' }, 'login', ['tasks'])
    await expect(told).rejects.toMatchObject({ code: 'not_found' })
    expect((await asks(session))?.decision).toBe('deny')
  })

  test('[SDD13] an artifact that was saved before the session began counts at once', async () => {
    const project = await gatedProject()
    await save(project, 'tasks')
    expect((await asks(await begin(project)))?.decision).toBe('allow')
  })

  test('[SDD14] the decision is recorded with the phase as it was, and replay decides the same', async () => {
    const project = await gatedProject()
    const session = await host().begin({ project })
    const { runId } = await session.prompt()
    await asks(session)
    await save(project, 'tasks')
    await asks(session)
    await host().live()
    const { items } = await host().ok('GET', `/v1/runs/${runId}/events?limit=200`)
    const decisions = items.filter(({ kind }: { kind: string }) => kind === 'permission-decision')
    const key = 'sdd/login/apply-progress'
    expect(decisions.map(({ data }: { data: { phases: object } }) => data.phases)).toEqual([
      { [key]: ['sdd/login/tasks'] },
      { [key]: [] },
    ])
    const replayed = await host().ok('POST', '/v1/policies/replay', {
      runIds: [runId],
      project,
      version: 1,
    })
    expect(replayed).toMatchObject({ total: 2, same: 2 })
    const open = JSON.stringify({ name: 'open', rules: [] })
    const loose = { runIds: [runId], source: open, format: 'json' }
    expect((await host().ok('POST', '/v1/policies/replay', loose)).same).toBe(1)
  })
})

describe('[SDD14] a check of a policy', () => {
  const rules = [
    {
      match: { category: 'edit' },
      decision: 'allow',
      sdd: { change: 'login', phase: 'apply-progress' },
    },
  ]
  const source = JSON.stringify({ name: 'gated', rules })
  const requests = [{ category: 'edit', paths: ['/home/user/workspace/a.ts'] }]
  const decide = async (more: object) =>
    (await host().ok('POST', '/v1/policies/check', { source, format: 'json', requests, ...more }))
      .decisions[0]

  test('takes what is known of phases; what is not given is not known', async () => {
    const key = 'sdd/login/apply-progress'
    expect(await decide({ phases: { [key]: [] } })).toMatchObject({ decision: 'allow' })
    expect(await decide({ phases: { [key]: ['sdd/login/tasks'] } })).toMatchObject({
      decision: 'deny',
      reason: expect.stringContaining('save sdd/login/tasks first'),
    })
    expect(await decide({})).toMatchObject({
      decision: 'deny',
      reason: expect.stringContaining('not known to be'),
    })
  })

  test('a phase or change that cannot be is refused, and named', async () => {
    const bad = JSON.stringify({
      name: 'x',
      rules: [{ ...rules[0], sdd: { change: 'login', phase: 'apply' } }],
    })
    const { status, json } = await host().call('PUT', '/v1/policies', {
      format: 'json',
      source: bad,
    })
    expect([status, JSON.stringify(json.error)]).toEqual([422, expect.stringContaining('phase')])
  })
})
