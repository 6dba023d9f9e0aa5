import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { attemptsOn, type Item } from '../support/eval-attempts-kit.ts'
import { useHost } from '../support/host.ts'

const host = useHost()
const { begin, finish, finishAll, sessionOf } = attemptsOn(host)
const at = '/v1/evals/promotions'
const five = [{}, {}, {}, {}, {}]
/** Guarded projects, one for each test. What is not released yet is tried in "staging". */
let project = ''
let made = 0
beforeEach(() => void (project = `p${++made}`))

/** A run of the same suite with OpenCode as it is, unless `target` says more, as the baseline of the project. */
async function guard(gates: object[], more: object = {}, asked: Item = {}): Promise<Item> {
  const { id } = await tryOut(asked, 'hello', { project })
  const rule = { interval: null, minScore: 0.9, minCases: 5 }
  return await host().ok('PUT', '/v1/evals/baselines', { evalRunId: id, rule, gates, ...more })
}
const run = ({ target, run: more = {}, cases = five }: Item) =>
  begin({ cases, target: { workers: 20, ...target }, run: { workers: 20, ...more } })

/** A run of the suite in which every attempt answers this. */
async function tryOut(
  { cases, ...target }: Item,
  text = 'hello',
  more: object = {},
): Promise<Item> {
  const { id } = await run({ target, cases, run: { project: 'staging', ...more } })
  await finishAll(id, text)
  const ended = await host().ok('GET', `/v1/evals/runs/${id}`)
  expect(ended.status).toBe('completed')
  await host().rows('select 1')
  return ended
}

const agent = (value: string, more: object = {}) => ({
  ...{ project, name: 'reviewer', description: 'Reviews' },
  instructions: { kind: 'inline', value },
  ...more,
})
const put = (path: string, body: object, key = host().key) => host().call('PUT', path, body, key)
const promotions = async (query = `project=${project}`) =>
  (await host().ok('GET', `${at}?${query}`)).items as Item[]
const audit = async (action: string): Promise<Item[]> =>
  (await host().ok('GET', '/v1/audit?limit=100')).items.filter(
    (entry: Item) => entry.action === action && entry.detail.project === project,
  )

describe('a guarded agent', () => {
  test('[PROM1] [PROM2] [PROM3] is refused until a run with exactly this revision passes, which is on record', async () => {
    const { evalRunId: baselineRunId } = await guard([{ kind: 'agent', name: 'reviewer' }])
    const refused = await put('/v1/agents', agent('Be kind'))
    expect([refused.status, refused.json.error.code]).toEqual([409, 'not_promoted'])
    const [detail] = refused.json.error.details
    expect(detail.path).toBe(`${project}/d`)
    expect(detail.message).toMatch(
      /^There is no completed run of the suite with [0-9a-f]{64}: run it/,
    )
    expect(
      (await host().call('GET', `/v1/agents/by-name/reviewer?project=${project}`)).status,
    ).toBe(404)
    // Another name is not guarded.
    expect((await put('/v1/agents', agent('Be kind', { name: 'writer' }))).status).toBe(200)

    const staged = await host().ok('PUT', '/v1/agents', agent('Be kind', { project: 'staging' }))
    const tried = await tryOut({ agent: 'reviewer' })
    const stored = await put('/v1/agents', agent('Be kind'))
    expect([stored.status, stored.json.sha256]).toEqual([200, staged.sha256])
    expect(await promotions()).toEqual([
      expect.objectContaining({
        ...{ kind: 'agent', name: 'reviewer', sha256: staged.sha256, state: 'passed' },
        ...{ project, dataset: 'd', baselineRunId, evalRunId: tried.id, target: 'oc' },
        ...{ runHash: tried.hash, reasons: ['The score is 1, at least 0.9'], askReason: null },
      }),
    ])
    expect(await audit('promotion.passed')).toMatchObject([
      { subject: 'agent reviewer', detail: { sha256: staged.sha256, evalRunId: tried.id } },
    ])
    // Once more: the same revision, nothing new on record.
    expect((await put('/v1/agents', agent('Be kind'))).status).toBe(200)
    expect(await promotions()).toHaveLength(1)
    // The next revision was not tried.
    expect((await put('/v1/agents', agent('Be brief'))).status).toBe(409)
    expect(
      (await host().ok('GET', `/v1/agents/by-name/reviewer?project=${project}`)).revision,
    ).toBe(1)
  })

  test('[PROM3] a run that is worse, or in which an attempt had another revision, lets nothing through', async () => {
    await guard([{ kind: 'agent' }])
    await host().ok('PUT', '/v1/agents', agent('Be rude', { project: 'staging' }))
    const worse = await tryOut({ agent: 'reviewer' }, 'no')
    const { json } = await put('/v1/agents', agent('Be rude'))
    expect(json.error.code).toBe('not_promoted')
    expect(json.error.details[0].message).toBe(
      `Run ${worse.id} is worse: The score is 0, below 0.9`,
    )
    expect(await promotions()).toEqual([])

    await host().ok('PUT', '/v1/agents', agent('First', { project: 'staging' }))
    const { id } = await run({
      target: { agent: 'reviewer', workers: 4 },
      run: { project: 'staging' },
    })
    const first = await sessionOf(id, 0)
    await host().ok('PUT', '/v1/agents', agent('Second', { project: 'staging' }))
    await finish(first)
    for (const n of [1, 2, 3, 4]) await finish(await sessionOf(id, n))
    await host().rows('select 1')
    for (const text of ['First', 'Second'])
      expect((await put('/v1/agents', agent(text))).status).toBe(409)
  })

  test('[PROM2] what is personal, what counts already and what nobody guards need no run', async () => {
    await host().ok('PUT', '/v1/agents', agent('Old'))
    await guard([{ kind: 'agent' }])
    expect((await put('/v1/agents', agent('Old'))).status).toBe(200)
    expect((await put('/v1/agents', agent('New'))).status).toBe(409)
    expect((await put('/v1/agents', agent('New', { scope: 'personal' }))).status).toBe(200)
    expect((await put('/v1/agents', agent('New', { project: 'free' }))).status).toBe(200)
    const shipped = await host().call('POST', '/v1/agents/shipped', { project })
    expect([shipped.status, shipped.json.error.code]).toEqual([409, 'not_promoted'])
    await guard([])
    expect((await put('/v1/agents', agent('New'))).status).toBe(200)
    const set = await audit('baseline.set')
    expect(set.map(({ detail }) => detail.gates)).toEqual([[], [{ kind: 'agent' }]])
  })

  test('[PROM4] counts for its baseline: with another one it must pass again', async () => {
    const gates = [{ kind: 'agent' }]
    await guard(gates)
    await host().ok('PUT', '/v1/agents', agent('Be fair', { project: 'staging' }))
    const tried = await tryOut({ agent: 'reviewer' })
    expect((await put('/v1/agents', agent('Be fair'))).status).toBe(200)
    const other = await host().ok('GET', `/v1/agents/by-name/reviewer?project=${project}`)
    await host().ok('POST', `/v1/agents/${other.id}/archive`, {})
    const rule = { interval: null, minScore: 1, minCases: 10 }
    await guard(gates, { rule })
    const again = await put('/v1/agents', agent('Be fair'))
    expect(again.json.error.details[0].message).toBe(
      `Run ${tried.id} is inconclusive: There are 5 cases, and the rule needs at least 10; The score is 1, at least 1`,
    )
  })
})

describe('every registry asks the same', () => {
  test('[PROM1] a profile', async () => {
    await guard([{ kind: 'profile' }])
    const profile = { name: 'quick', orchestrator: 'claude-opus-4.6' }
    expect((await put('/v1/profiles', { project, ...profile })).json.error.code).toBe(
      'not_promoted',
    )
    await host().ok('PUT', '/v1/profiles', { project: 'staging', ...profile })
    await tryOut({ profile: 'quick' })
    expect((await put('/v1/profiles', { project, ...profile })).status).toBe(200)
    expect(await promotions()).toMatchObject([{ kind: 'profile', name: 'quick', state: 'passed' }])
  })

  test('[PROM1] a policy, tried by its text; one of the organisation is guarded by every project', async () => {
    await guard([{ kind: 'policy' }])
    const source = `name: house-${project}\nrules: []\n`
    const refused = await put('/v1/policies', { project, source })
    expect(refused.json.error.code).toBe('not_promoted')
    expect((await put('/v1/policies', { source })).json.error.details.length).toBe(1)
    await tryOut({ policy: source })
    expect((await put('/v1/policies', { project, source })).status).toBe(200)
    expect(await promotions()).toMatchObject([{ kind: 'policy', name: `house-${project}` }])
  })

  test('[PROM1] [PROM7] an ability', async () => {
    await guard([{ kind: 'ability' }])
    const content =
      'name: greet\ndescription: Greets\nsteps:\n  - { id: a, type: script, run: echo hello }\n'
    const files = [{ path: 'ability.yaml', content }]
    expect((await put('/v1/abilities', { project, files })).json.error.code).toBe('not_promoted')
    await host().ok('PUT', '/v1/abilities', { project: 'staging', files })
    const { id } = await tryOut({ ability: 'greet' })
    const [attempt] = (await host().ok('GET', `/v1/evals/runs/${id}/attempts`)).items
    expect(attempt.tried).toMatchObject([{ kind: 'ability', name: 'greet' }])
    expect((await put('/v1/abilities', { project, files })).status).toBe(200)
    expect(await promotions()).toMatchObject([{ kind: 'ability', name: 'greet' }])
  })

  test('[PROM1] a version of a skill: added as active, a draft, a proposal; a roll-back needs none', async () => {
    const post = (path: string, body: object) => host().call('POST', path, body)
    const source = (text: string) => ({ kind: 'inline', content: text })
    const skillIn = async (place: string) =>
      (await host().ok('PUT', '/v1/skills', { project: place, name: 'review', description: 'R' }))
        .id
    const id = await skillIn(project)
    const versions = `/v1/skills/${id}/versions`
    await host().ok('POST', versions, { source: source('one'), activate: true, reason: 'r' })
    await guard([{ kind: 'skill' }])
    const two = { source: source('two'), reason: 'r' }
    const refused = await post(versions, { ...two, activate: true })
    expect(refused.json.error.code).toBe('not_promoted')
    const draft = await host().ok('POST', versions, { ...two, activate: false })
    const state = `${versions}/${draft.version}/state`
    const active = { state: 'active', reason: 'r' }
    expect((await post(state, active)).json.error.code).toBe('not_promoted')
    const asked = { source: source('two'), rationale: 'r', submit: true }
    const proposal = await host().ok('POST', `/v1/skills/${id}/proposals`, {
      ...asked,
      signal: { kind: 'correction', reference: 'run 7' },
    })
    const word = { resolution: 'approved', hash: proposal.hash, reason: 'r' }
    const resolve = `/v1/skill-proposals/${proposal.id}`
    await host().ok('POST', `${resolve}/resolve`, word, await host().newApprover())
    expect((await post(`${resolve}/apply`, { reason: 'r' })).json.error.code).toBe('not_promoted')

    const staged = await skillIn('staging')
    await host().ok('POST', `/v1/skills/${staged}/versions`, { ...two, activate: true })
    await tryOut({ skills: ['review'] })
    expect((await post(state, active)).status).toBe(200)
    expect(await promotions()).toMatchObject([{ kind: 'skill', name: 'review' }])
    const back = await post(`/v1/skills/${id}/rollback`, { version: 1, reason: 'r' })
    expect(back.status).toBe(200)
  })
})

describe('a run speaks for the revision alone', () => {
  /** The refusal of an agent that every attempt of a run in "staging" had. */
  const refusedAgent = async (value: string, target: Item, more: object = {}): Promise<string> => {
    await host().ok('PUT', '/v1/agents', agent(value, { project: 'staging' }))
    await tryOut({ agent: 'reviewer', ...target }, 'hello', more)
    const { status, json } = await put('/v1/agents', agent(value))
    expect([status, json.error.code]).toEqual([409, 'not_promoted'])
    return json.error.details[0].message
  }

  test('[PROM8] with another model, prompt, policy, skill or limit it lets nothing through, and says which', async () => {
    await guard([{ kind: 'agent' }], {}, { max_retries: 1 })
    const skill = { project: 'staging', name: 'hints', description: 'H' }
    const { id } = await host().ok('PUT', '/v1/skills', skill)
    const source = { kind: 'inline', content: 'The answer is hello' }
    const version = { source, activate: true, reason: 'r' }
    await host().ok('POST', `/v1/skills/${id}/versions`, version)
    const told = await refusedAgent('Be strong', {
      ...{ model: 'claude-opus-4.6', system_prompt: 'Say hello', skills: ['hints'] },
      ...{ policy: 'name: open\nrules: []\n', permissions: 'once', timeout_seconds: 900 },
    })
    for (const sentence of [
      '"maxRetries" is not as in the baseline (0 instead of 1)',
      '"model" is not as in the baseline ("claude-opus-4.6" instead of none)',
      '"permissions" is not as in the baseline ("once" instead of "reject")',
      '"policy" is not as in the baseline',
      '"skills" is not as in the baseline (["hints"] instead of none)',
      '"systemPrompt" is not as in the baseline;',
      '"timeoutSeconds" is not as in the baseline (900 instead of 600)',
      `and the baseline had it not and project "${project}" has it not`,
    ])
      expect(told).toContain(sentence)
    expect(told).toMatch(/^Run evl_\w+ speaks not for this agent alone: /)
    expect(await promotions()).toEqual([])
  })

  test('[PROM8] a part of the cases, or more tries of them, is another run', async () => {
    await guard([{ kind: 'agent' }], { rule: { interval: null, minCases: 5 } })
    expect(await refusedAgent('Be lucky', {}, { repetitions: 2 })).toContain(
      'speaks not for this agent alone: "cases" is not as in the baseline. Run the suite',
    )
    const six = [...five, {}]
    await guard([{ kind: 'agent' }], {}, { cases: six })
    const part = { cases: ['c0', 'c1', 'c2', 'c3', 'c4'] }
    expect(await refusedAgent('Be choosy', { cases: six }, part)).toContain(
      '"cases" is not as in the baseline; 1 case of the baseline was not run; The score is 1, at least 0.9',
    )
    await tryOut({ agent: 'reviewer', cases: six })
    expect((await put('/v1/agents', agent('Be choosy'))).status).toBe(200)
  })

  test('[PROM8] the newest run that can be compared counts, also behind newer ones that cannot', async () => {
    await guard([{ kind: 'agent' }])
    await host().ok('PUT', '/v1/agents', agent('Be coarse', { project: 'staging' }))
    const worse = await tryOut({ agent: 'reviewer' }, 'no')
    const { json } = await put('/v1/agents', agent('Be coarse'))
    expect(json.error.details[0].message).toContain(`Run ${worse.id} is worse`)
    expect(await refusedAgent('Be coarse', { model: 'claude-opus-4.6' })).toContain(
      `Run ${worse.id} is worse`,
    )
    const { id } = await tryOut({ agent: 'reviewer' })
    await tryOut({ agent: 'reviewer', system_prompt: 'Say hello' })
    expect((await put('/v1/agents', agent('Be coarse'))).status).toBe(200)
    expect(await promotions()).toMatchObject([{ evalRunId: id, state: 'passed' }])
  })

  test('[PROM8] what an agent names comes with it if its project has the same revision', async () => {
    await guard([{ kind: 'agent' }])
    const naming = { skills: [{ name: 'hints' }], model: 'claude-opus-4.6' }
    const skillIn = async (place: string, content: string) => {
      const skill = { project: place, name: 'hints', description: 'H' }
      const { id } = await host().ok('PUT', '/v1/skills', skill)
      const version = { source: { kind: 'inline', content }, activate: true, reason: 'r' }
      await host().ok('POST', `/v1/skills/${id}/versions`, version)
    }
    await skillIn('staging', `The answer of ${project} is hello`)
    await host().ok('PUT', '/v1/agents', agent('Look', { project: 'staging', ...naming }))
    await tryOut({ agent: 'reviewer' })
    const refused = await put('/v1/agents', agent('Look', naming))
    expect(refused.json.error.details[0].message).toMatch(
      /It had the skill "hints" \([0-9a-f]{64}\), and the baseline had it not and project "p\d+" has it not/,
    )
    await skillIn(project, 'Think')
    expect((await put('/v1/agents', agent('Look', naming))).status).toBe(409)
    await skillIn(project, `The answer of ${project} is hello`)
    expect((await put('/v1/agents', agent('Look', naming))).status).toBe(200)
  })

  test('[PROM8] without the run of the baseline nobody can say what differs', async () => {
    const { evalRunId } = await guard([{ kind: 'agent' }])
    await host().ok('DELETE', `/v1/evals/runs/${evalRunId}`)
    await host().live(2000)
    expect(await refusedAgent('Be alone', {})).toContain(
      'The run of the baseline is not there any more: nobody can say what differs',
    )
  })

  test('[PROM8] [EVR24] the gate of a run says what differs, and an override has it on record', async () => {
    await guard([{ kind: 'agent' }])
    const told = await refusedAgent('Be bold', { permissions: 'once' })
    const id = /evl_\w+/.exec(told)![0]
    const same = await tryOut({ permissions: 'once' }, 'hello', { project })
    const gate = await host().ok('GET', `/v1/evals/runs/${same.id}/gate`)
    const sentence = '"permissions" is not as in the baseline ("once" instead of "reject")'
    expect(gate).toMatchObject({ outcome: 'pass', target: 'oc', differences: [sentence] })
    const { json } = await put('/v1/agents', agent('Be bold'))
    const sha256 = /\(([0-9a-f]{64})\)/.exec(json.error.message)![1]!
    const revision = { project, dataset: 'd', kind: 'agent', name: 'reviewer', sha256 }
    const asked = await host().ok('POST', at, { ...revision, reason: 'It has to be once' })
    expect(asked).toMatchObject({ state: 'asked', evalRunId: id })
    expect(asked.reasons[0]).toBe(sentence)
    const word = { resolution: 'approved', sha256, reason: 'Seen' }
    const approver = await host().newApprover(`anna-${project}`)
    await host().ok('POST', `${at}/${asked.id}/resolve`, word, approver)
    expect((await put('/v1/agents', agent('Be bold'))).status).toBe(200)
    expect(await promotions()).toMatchObject([
      {
        state: 'overridden',
        askReason: 'It has to be once',
        resolveReason: 'Seen',
        reasons: asked.reasons,
      },
    ])
  })
})

describe('an override', () => {
  const ask = async (more: object = {}) => {
    const { json } = await put('/v1/agents', agent('Be quick'))
    const sha256 = /\(([0-9a-f]{64})\)/.exec(json.error.message)![1]!
    const body = {
      project,
      dataset: 'd',
      kind: 'agent',
      name: 'reviewer',
      sha256,
      reason: 'Urgent',
    }
    return host().call('POST', at, { ...body, ...more })
  }
  const resolve = (id: string, sha256: string, key: string, resolution = 'approved') =>
    host().call('POST', `${at}/${id}/resolve`, { resolution, sha256, reason: 'Seen' }, key)

  test('[PROM5] is given by another person with a reason, and both are on record', async () => {
    await guard([{ kind: 'agent' }])
    const { json: asked } = await ask()
    expect(asked).toMatchObject({ state: 'asked', askReason: 'Urgent', evalRunId: null, quorum: 1 })
    expect((await put('/v1/agents', agent('Be quick'))).status).toBe(409)
    expect((await ask()).json.id).toBe(asked.id)
    expect((await resolve(asked.id, asked.sha256, host().key)).status).toBe(403)
    const writer = await host().newKey('write')
    expect((await resolve(asked.id, asked.sha256, writer)).status).toBe(403)
    // Nor by a member that the asker has just made.
    const made = { name: 'second', owner: `second-${project}`, scopes: ['approve'] }
    await host().ok('PUT', '/v1/settings', { newKeysCount: false })
    const second = (await host().ok('POST', '/v1/keys', made)).secret
    expect((await resolve(asked.id, asked.sha256, second)).status).toBe(403)
    const approver = await host().newApprover(`anna-${project}`)
    expect((await resolve(asked.id, 'f'.repeat(64), approver)).json.error.code).toBe('wrong_state')
    const { json: done } = await resolve(asked.id, asked.sha256, approver)
    expect(done).toMatchObject({ state: 'overridden', resolveReason: 'Seen' })
    expect(done.votes).toMatchObject([{ reason: 'Seen' }])
    expect((await resolve(asked.id, asked.sha256, approver)).json.state).toBe('overridden')
    expect((await put('/v1/agents', agent('Be quick'))).status).toBe(200)
    expect(await promotions()).toMatchObject([{ state: 'overridden', askReason: 'Urgent' }])
    expect(await audit('promotion.overridden')).toMatchObject([{ detail: { reason: 'Seen' } }])
    expect(await audit('promotion.asked')).toHaveLength(1)
  })

  test('[PROM5] needs as many people as the policy of the project says; a refusal can be asked again', async () => {
    const source = `name: two\napprovals: { quorum: 2 }\nrules: []\n`
    await host().ok('PUT', '/v1/policies', { project, source })
    await guard([{ kind: 'agent' }])
    const { json: asked } = await ask()
    const [anna, bert] = [await host().newApprover('a1'), await host().newApprover('b1')]
    expect((await resolve(asked.id, asked.sha256, anna, 'rejected')).json.state).toBe('refused')
    expect((await put('/v1/agents', agent('Be quick'))).status).toBe(409)
    expect((await ask()).json).toMatchObject({ id: asked.id, state: 'asked', resolvedBy: null })
    expect((await resolve(asked.id, asked.sha256, anna)).json.state).toBe('asked')
    expect((await resolve(asked.id, asked.sha256, anna)).json.state).toBe('asked')
    expect((await resolve(asked.id, asked.sha256, bert)).json.state).toBe('overridden')
    expect((await put('/v1/agents', agent('Be quick'))).status).toBe(200)
  })

  test('[PROM6] nothing of it is there for another organisation or a key of another project', async () => {
    await guard([{ kind: 'agent' }])
    const { json: asked } = await ask()
    const organisation = await host().app.makeOrganisation()
    const stranger = (await host().app.makeKey(organisation, 'admin')).secret
    const limited = await host().ok('POST', '/v1/keys', {
      ...{ name: 'limited', owner: 'limited', scopes: ['approve', 'write'] },
      limits: { projects: ['elsewhere'] },
    })
    for (const key of [stranger, limited.secret]) {
      expect((await host().call('GET', `${at}/${asked.id}`, undefined, key)).status).toBe(404)
      expect((await host().ok('GET', at, undefined, key)).items).toEqual([])
      expect((await resolve(asked.id, asked.sha256, key)).status).toBe(404)
    }
    // Its own rows of that name are not guarded by ours, and its runs promote nothing here.
    expect((await put('/v1/agents', agent('Be quick'), stranger)).status).toBe(200)
    expect((await ask({ dataset: 'none' })).status).toBe(404)
  })

  test('[PROM6] lists page by page', async () => {
    await guard([{ kind: 'agent' }, { kind: 'profile' }])
    const names = ['a', 'b', 'c']
    for (const name of names) await ask({ name })
    const first = await host().ok('GET', `${at}?project=${project}&limit=2`)
    const second = await host().ok('GET', `${at}?project=${project}&cursor=${first.nextCursor}`)
    const all = [...first.items, ...second.items].map(({ name }: Item) => name)
    expect(all.toSorted((a: string, b: string) => a.localeCompare(b))).toEqual(names)
    expect([first.items.length, second.nextCursor]).toEqual([2, null])
    expect(await promotions(`project=${project}&kind=profile`)).toEqual([])
  })
})

test('[PROM1] [PROM5] docs/evals.md leads from a guarded agent to an override, word for word', async () => {
  const page = readFileSync(join(root, 'docs/evals.md'), 'utf8')
  const blocks = [...page.matchAll(/```http\n(\w+) (\S+)\n(.*?)```/gs)]
  const [baseline, agentPut, asked, resolved, ...others] = blocks.map(
    ([, method = '', path = '', body = '']) =>
      (known: Record<string, string> = {}, key = host().key) => {
        const text = body.replaceAll(/"evl_…"|"sha256": "…"/g, (found) =>
          found.startsWith('"evl') ? `"${known['run']}"` : `"sha256": "${known['sha256']}"`,
        )
        const at = path.replace('prm_…', known['id'] ?? '')
        return host().call(method, at, JSON.parse(text), key)
      },
  )
  expect(others).toEqual([])
  project = 'shop'
  const { evalRunId: run } = await guard([])
  expect((await baseline!({ run })).status).toBe(200)
  const refused = await agentPut!()
  expect([refused.status, refused.json.error.code]).toEqual([409, 'not_promoted'])
  const sha256 = /[0-9a-f]{64}/.exec(refused.json.error.message)![0]
  const { id } = (await asked!({ sha256 })).json
  const approver = await host().newApprover('reader')
  expect((await resolved!({ id, sha256 }, approver)).json.state).toBe('overridden')
  expect((await agentPut!()).status).toBe(200)
})
