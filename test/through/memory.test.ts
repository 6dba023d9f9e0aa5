import { beforeEach, describe, expect, test } from 'vitest'
import { AppError } from '../../src/contract/error.ts'
import { toolsForMode, toolFileName } from '../../src/contract/tools.ts'
import { type HostSession, useHost } from '../support/host.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
/** The next read of memories gets no answer, though what was written before it is there. */
let failsNext = false
const db = () => {
  const real = libsql.db()
  return {
    all: <T extends object>(...given: Parameters<typeof real.all>): Promise<T[]> => {
      if (!failsNext || !given[0].includes('from memories')) return real.all<T>(...given)
      failsNext = false
      return Promise.reject(new AppError('storage_unavailable', 'Away'))
    },
    batch: (...given: Parameters<typeof real.batch>) => real.batch(...given),
  }
}
const host = useHost({ db })
beforeEach(() => {
  failsNext = false
})

let made = 0
const newProject = () => `memory-${(made += 1)}`
const remember = (
  project: string,
  title: string,
  content: string,
  more = {},
  credential?: string,
) => host().ok('POST', '/v1/memories', { project, title, content, ...more }, credential)
async function rowsOf(project: string): Promise<object[]> {
  await host().live()
  const query = 'select title, content, revision, saved_by from memories where project = ?'
  return (await libsql.db().all(query, project)).map((row) => ({ ...row }))
}
const tools = ['memory_search', 'memory_get', 'memory_save', 'memory_update']

interface ToolAnswer {
  success: boolean
  result: string
  data?: { memory: { id: string; revision: number }; items: { title: string }[] }
}
const use = async (session: HostSession, tool: string, args: object, id?: string) =>
  JSON.parse((await session.callback(tool, args, id)).text) as ToolAnswer
async function timeline(runId: string, kind: string) {
  await host().live()
  const { items } = await host().ok('GET', `/v1/runs/${runId}/events?limit=200`)
  return items
    .filter((entry: { kind: string }) => entry.kind === kind)
    .map(({ data }: { data: object }) => data)
}

test('[MEM12] the tools and the routes give the same answers to the same questions', async () => {
  const project = newProject()
  const ids: string[] = []
  for (const [title, content] of [
    ['Queues', 'One queue per tenant'],
    ['Tenants', 'A tenant has a queue and a quota'],
    ['Other', 'Nothing of it'],
  ] as const)
    ids.push((await remember(project, title, content)).id)
  const session = await host().begin({ project, memory: { scopes: ['project'] } })
  const found = await use(session, 'memory_search', { query: 'tenant queue' })
  const asked = `/v1/memories/search?project=${project}&scope=project&query=tenant%20queue`
  const { items } = await host().ok('GET', asked)
  expect(items).toHaveLength(2)
  expect(found.data?.items).toEqual(items)
  const read = await use(session, 'memory_get', { id: ids[0] })
  expect(read.data?.memory).toEqual(await host().ok('GET', `/v1/memories/${ids[0]}`))
  const none = `mem_${'0'.repeat(20)}`
  expect((await use(session, 'memory_get', { id: none })).success).toBe(false)
  expect((await host().refusal('GET', `/v1/memories/${none}`))[0]).toBe(404)
})

describe('a session that names memory', () => {
  test('[MEM9] begins with what fits, under a heading, pinned and on the timeline of its first run', async () => {
    const project = newProject()
    const one = await remember(project, 'Deploys', 'Friday is for deploys', { type: 'decision' })
    const own = await remember(project, 'Mine', 'I like tabs', { scope: 'personal' })
    await remember('elsewhere', 'Other', 'of another project')
    const memory = { scopes: ['project', 'personal'] }
    const session = await host().begin({ project, memory })
    const text = session.file('.opencode/instructions.md')
    expect(text).toContain('# What is remembered')
    expect(text).toContain(`## Deploys\n\n(${one.id}, decision, project)\n\nFriday is for deploys`)
    expect(text).toContain('I like tabs')
    expect(text).not.toContain('of another project')
    expect(text.indexOf('# What is remembered')).toBeLessThan(text.indexOf('# Working in'))
    const { pins } = await session.view()
    const named = pins.map(
      (pin: { kind: string; id: string; revision: number; sha256: string }) => {
        expect([pin.kind, pin.sha256.length]).toEqual(['memory', 64])
        return [pin.id, pin.revision]
      },
    )
    expect(new Map(named)).toEqual(
      new Map([
        [one.id, 1],
        [own.id, 1],
      ]),
    )
    const { runId } = await session.prompt()
    const [read] = await timeline(runId, 'memory.read')
    expect(new Set(read.memories.map(({ id }: { id: string }) => id))).toEqual(
      new Set([one.id, own.id]),
    )
    const second = await host().ok('POST', `${session.at}/runs`, { intent: 'more' })
    expect(await timeline(second.id, 'memory.read')).toEqual([])
  })

  test('[MEM9] of one scope it has nothing of the other, and of another member nothing', async () => {
    const project = newProject()
    await remember(project, 'Shared', 'for all')
    await remember(project, 'Own', 'for me', { scope: 'personal' })
    const body = { name: 'k', owner: 'somebody', scopes: ['write'] }
    const { secret } = await host().ok('POST', '/v1/keys', body)
    await remember(project, 'Theirs', 'for somebody', { scope: 'personal' }, secret)
    const given = async (scopes: string[], credential?: string) => {
      const session = await host().begin({ project, memory: { scopes } }, credential)
      const text = session.file('instructions.md')
      return ['for all', 'for me', 'for somebody'].filter((words) => text.includes(words))
    }
    expect(await given(['project'])).toEqual(['for all'])
    expect(await given(['personal'])).toEqual(['for me'])
    expect(await given(['personal', 'project'], secret)).toEqual(['for all', 'for somebody'])
  })

  test('[MEM9] words choose what it begins with, and its tokens are never exceeded', async () => {
    const project = newProject()
    await remember(project, 'Figs', `figs ${'x'.repeat(4000)}`)
    await host().live(1000)
    await remember(project, 'Small', 'figs are small')
    await remember(project, 'Apples', 'no such fruit')
    const given = async (more: object) => {
      const session = await host().begin({ project, memory: { scopes: ['project'], ...more } })
      const { pins } = await session.view()
      return pins.map(({ name }: { name: string }) => name)
    }
    expect((await given({})).toSorted()).toEqual(['Apples', 'Figs', 'Small'])
    expect(await given({ query: 'figs' })).toEqual(['Figs', 'Small'])
    expect(await given({ query: 'figs', maxTokens: 1000 })).toEqual(['Small'])
    // With its headings: 195 characters.
    expect(await given({ query: 'figs', maxTokens: 49 })).toEqual(['Small'])
    expect(await given({ query: 'figs', maxTokens: 48 })).toEqual([])
    expect(await given({ maxTokens: 0 })).toEqual([])
  })

  test('[MEM9] many small ones with their headings are no more than its tokens', async () => {
    const project = newProject()
    for (let n = 0; n < 30; n += 1) await remember(project, `t${n}`, 'x')
    const memory = { scopes: ['project'], maxTokens: 200 }
    const session = await host().begin({ project, memory })
    const [, told = ''] =
      /(# What is remembered[^]*?)(?=\n# )/.exec(session.file('instructions.md')) ?? []
    const { pins } = await session.view()
    expect(pins.length).toBeGreaterThan(5)
    expect(told.split('\n## ').length - 1).toBe(pins.length)
    expect(told.length).toBeLessThanOrEqual(800)
  })

  test('[MEM9] keeps what it began with, whatever becomes of the memory', async () => {
    const project = newProject()
    const { id } = await remember(project, 'Port', 'The port is 4000')
    const session = await host().begin({ project, memory: { scopes: ['project'] } })
    await host().ok('PATCH', `/v1/memories/${id}`, { content: 'The port is 5000' })
    await host().ok('POST', `${session.at}/replace`)
    await host().live(60_000)
    await session.meet()
    expect(session.file('instructions.md')).toContain('The port is 4000')
    const next = await host().begin({ project, memory: { scopes: ['project'] } })
    expect(next.file('instructions.md')).toContain('The port is 5000')
  })

  test('[MEM10] has the four tools, and may use them; a plain session has none of them', async () => {
    const project = newProject()
    const session = await host().begin({ project, memory: { scopes: ['project'] } })
    for (const tool of tools) {
      expect(session.file(`.opencode/tool/${tool}.ts`)).toContain('export default')
      expect(session.file('actions-guide.md')).toContain(`## ${tool}`)
    }
    await session.prompt()
    expect(session.agent.answerTo(await session.ask('memory_save'))?.decision).toBe('allow')
    const plain = await host().begin({ project })
    expect(plain.manifest.toolIds).toEqual(toolsForMode('scratch').map(toolFileName))
    expect(plain.file('instructions.md')).not.toContain('remembered')
    const answer = await use(plain, 'memory_save', { title: 't', content: 'c' })
    expect([answer.success, answer.result]).toEqual([
      false,
      expect.stringContaining('for sessions with memory'),
    ])
    expect(await rowsOf(project)).toEqual([])
  })
})

describe('the tools of memory', () => {
  const begin = async (scopes = ['project']) => {
    const project = newProject()
    const session = await host().begin({ project, memory: { scopes } })
    return { project, session, ...(await session.prompt()) }
  }

  test('[MEM10] [MEM11] save once however often a call comes, find, read and change, each on the timeline', async () => {
    const { project, session, runId } = await begin()
    const fields = { type: 'decision', title: 'Retries', content: 'Three retries, then give up' }
    const answers = await Promise.all([1, 2].map(() => use(session, 'memory_save', fields, 'c-1')))
    answers.push(await use(session, 'memory_save', fields, 'c-1'))
    const id = answers[0]?.data?.memory.id ?? ''
    expect(answers.map((answer) => answer.data?.memory.id)).toEqual([id, id, id])
    expect(await rowsOf(project)).toEqual([
      { title: 'Retries', content: fields.content, revision: 1, saved_by: session.id },
    ])
    const found = await use(session, 'memory_search', { query: 'retry' })
    expect(found.result).toContain(`${id} (decision, project) Retries: Three retries`)
    const change = { id, content: 'Five retries' }
    expect((await use(session, 'memory_update', change, 'c-2')).data?.memory.revision).toBe(2)
    expect((await use(session, 'memory_update', change, 'c-2')).data?.memory.revision).toBe(2)
    expect((await use(session, 'memory_get', { id })).result).toContain('Five retries')
    const written = await timeline(runId, 'memory.written')
    expect(written).toMatchObject([
      { tool: 'memory_save', memories: [{ id, revision: 1 }] },
      { tool: 'memory_update', memories: [{ id, revision: 2 }] },
    ])
    expect(await timeline(runId, 'memory.read')).toMatchObject([
      { tool: 'memory_search', memories: [{ id, revision: 1 }] },
      { tool: 'memory_get', memories: [{ id, revision: 2 }] },
    ])
    const later = await host().begin({ project, memory: { scopes: ['project'] } })
    expect(later.file('instructions.md')).toContain('Five retries')
  })

  test('[MEM11] a call whose answer was lost after its write is run again, and has written once', async () => {
    const { project, session, runId } = await begin()
    const fields = { title: 'Once', content: 'only once' }
    failsNext = true
    const first = await session.callback('memory_save', fields, 'lost')
    expect(first.status).toBe(503)
    expect(await rowsOf(project)).toHaveLength(1)
    const again = await use(session, 'memory_save', fields, 'lost')
    expect(again.success).toBe(true)
    expect(await rowsOf(project)).toHaveLength(1)
    expect(await timeline(runId, 'memory.written')).toHaveLength(1)
  })

  test('[MEM10] reach neither another scope nor another project, organisation or member', async () => {
    const { project, session, runId } = await begin()
    const own = await remember(project, 'Own', 'secretive fig', { scope: 'personal' })
    const other = await remember('elsewhere', 'Other', 'secretive fig')
    for (const { id } of [own, other])
      for (const [tool, args] of [
        ['memory_get', { id }],
        ['memory_update', { id, content: 'changed' }],
      ] as const)
        expect(await use(session, tool, args)).toMatchObject({
          success: false,
          result: 'There is no such memory',
        })
    expect((await use(session, 'memory_search', { query: 'fig' })).result).toBe(
      'Nothing is remembered about this',
    )
    const saved = await use(session, 'memory_save', { title: 'x', content: 'y', scope: 'personal' })
    expect([saved.success, saved.result]).toEqual([
      false,
      'This session has no personal memory: use project',
    ])
    expect(await timeline(runId, 'memory.written')).toEqual([])
    const personal = await begin(['personal'])
    const fields = { title: 'Habit', content: 'tea', scope: 'personal' }
    await use(personal.session, 'memory_save', fields)
    const path = `/v1/memories?project=${personal.project}&scope=personal`
    expect((await host().ok('GET', path)).items).toMatchObject([{ title: 'Habit' }])
  })

  test('[MEM9] [MEM10] do not reach personal memories once another member speaks', async () => {
    const project = newProject()
    const own = await remember(project, 'Salary talks', 'a private fig', { scope: 'personal' })
    const key = { name: 'k', owner: 'other-speaker', scopes: ['write'] }
    const { secret } = await host().ok('POST', '/v1/keys', key)
    for (const scopes of [['personal'], ['project', 'personal']]) {
      const session = await host().begin({ project, memory: { scopes } })
      const { pins } = await host().ok('GET', session.at, undefined, secret)
      expect(pins).toMatchObject([{ kind: 'memory', name: own.id, id: own.id }])
      expect(JSON.stringify(pins)).not.toContain('Salary')
      await session.prompt()
      const reads = async () => (await use(session, 'memory_get', { id: own.id })).success
      expect(await reads()).toBe(true)
      await host().ok('POST', `${session.at}/prompts`, { text: 'Mine again' })
      expect(await reads()).toBe(true)
      await host().ok('POST', `${session.at}/prompts`, { text: 'Tell me', steer: true }, secret)
      expect(await reads()).toBe(false)
      const found = await use(session, 'memory_search', { query: 'fig' })
      expect(found.data?.items).toEqual([])
      const saving = { title: 'Evil', content: 'obey', scope: 'personal' }
      const saved = await use(session, 'memory_save', saving)
      const hint = scopes.length > 1 ? ': use project' : ''
      expect([saved.success, saved.result]).toEqual([
        ...[false, `This session has no personal memory${hint}`],
      ])
      await host().ok('POST', `${session.at}/prompts`, { text: 'And I again' })
      expect(await reads()).toBe(false)
    }
  })

  test('[MEM10] do not reach personal memories once another member has started an ability', async () => {
    const project = newProject()
    const own = await remember(project, 'Own', 'a private fig', { scope: 'personal' })
    const yaml = 'name: say\ndescription: d\nsteps:\n  - { id: a, run: echo }\n'
    await host().ok('PUT', '/v1/abilities', { project, files: [{ path: 'a.yaml', content: yaml }] })
    const key = { name: 'k', owner: 'other-starter', scopes: ['write'] }
    const { secret } = await host().ok('POST', '/v1/keys', key)
    const outcomes = []
    for (const credential of [undefined, secret]) {
      const session = await host().begin({ project, memory: { scopes: ['personal'] } })
      const started = { ability: 'say' }
      const { status } = await host().call('POST', `${session.at}/executions`, started, credential)
      outcomes.push([status < 300, (await use(session, 'memory_get', { id: own.id })).success])
    }
    expect(outcomes).toEqual([
      [true, true],
      [true, false],
    ])
  })

  test('[MEM10] refuse what looks like a secret', async () => {
    const { project, session } = await begin()
    const secret = `ghp_${'a1B2'.repeat(9)}`
    const answer = await use(session, 'memory_save', { title: 'Token', content: `use ${secret}` })
    expect(answer.result).not.toContain(secret)
    expect(JSON.stringify(await rowsOf(project))).not.toContain(secret)
  })
})

test('[MEM9] memory that cannot be given is refused, and named', async () => {
  for (const memory of [
    { scopes: [] },
    { scopes: ['team'] },
    { scopes: ['project'], maxTokens: -1 },
    { scopes: ['project'], query: '***' },
  ]) {
    const { status, json } = await host().call('POST', '/v1/sessions', { memory })
    expect([status, json.error.details[0].path.split('.')[0]]).toEqual([400, 'memory'])
  }
})

test('[MEM12] its tools need no word of anybody, unless a rule of the policy says so', async () => {
  const decide = async (project: string, tool: string, input: object) => {
    const session = await host().begin({ project, memory: { scopes: ['project'] } })
    await session.prompt()
    return session.agent.answerTo(await session.ask(tool, input))?.decision ?? 'waits'
  }
  const input = { content: 'One per tenant', title: 'Queues', type: 'note' }
  expect(await decide(newProject(), 'memory_save', input)).toBe('allow')
  const project = newProject()
  const rules = [{ match: { tool: 'memory_save' }, decision: 'ask' }]
  const source = JSON.stringify({ name: 'p', rules })
  await host().ok('PUT', '/v1/policies', { project, format: 'json', source })
  expect(await decide(project, 'memory_save', input)).toBe('waits')
  expect(await decide(project, 'memory_search', { query: 'x' })).toBe('allow')
})
