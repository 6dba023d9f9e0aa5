import { describe, expect, test } from 'vitest'
import { random, seedsOf } from '../support/random.ts'
import { cases, inProject, projectRows, type World } from '../support/registry-cases.ts'
import { useStack } from '../support/stack.ts'

const victims = ['worker', 'sqld', 'both'] as const
/** At least; then until answers were lost both before and after their write. */
const rounds = 6
const maxRounds = 40

describe('SIGKILL while registries are written', () => {
  // Its own: others would be without their parts.
  const stack = useStack('workerd', async () => ({}))

  const newKey = async (owner: string): Promise<string> => {
    const key = { name: owner, owner, scopes: ['write', 'approve'] }
    const { json } = await stack().api('POST', '/v1/keys', key)
    return json.secret
  }

  /** In a project of its own, with all that the request needs. */
  async function prepared(name: string, project: string, keys: World['keys']) {
    const send = (method: string, path: string, body: unknown, credential = keys.anna) =>
      stack().api(method, path, inProject(project, path, body), {
        ...{ credential, headers: { 'idempotency-key': project } },
      })
    const ok: World['ok'] = async (method, path, body, as) => {
      const { status, json, text } = await send(method, path, body, as)
      expect([method, path, status < 300, text]).toEqual([method, path, true, text])
      return json
    }
    const { given, method } = cases[name] ?? expect.unreachable()
    const { path, body, as } = await given({ ok, keys })
    return {
      ...{ name, method, send: () => send(method, path, body, as && keys[as]) },
      rows: () => projectRows(stack().db, project),
    }
  }

  const preparedAll = (round: number, keys: World['keys']) =>
    Promise.all(Object.keys(cases).map((name, at) => prepared(name, `p${round}-${at}`, keys)))

  async function undisturbed(keys: World['keys']) {
    const found = await Promise.all(
      (await preparedAll(0, keys)).map(async ({ name, send, rows }) => {
        const before = await rows()
        const sentAt = Date.now()
        const { status } = await send()
        expect([name, status < 300]).toEqual([name, true])
        const ms = Date.now() - sentAt
        return [name, { before, status, ms, after: await rows() }] as const
      }),
    )
    return new Map(found)
  }

  test(
    '[AGT22] whatever is killed at whichever moment, each request is done or not at all, and once by the same request again',
    { timeout: 240_000 },
    async () => {
      const next = random(seedsOf(1, 1)[0] ?? 1)
      await stack().api('PUT', '/v1/settings', { newKeysCount: true })
      const keys = { anna: await newKey('anna'), bert: await newKey('bert') }
      const known = await undisturbed(keys)
      const longest = Math.max(...[...known.values()].map(({ ms }) => ms))
      const lost = { done: 0, undone: 0 }
      for (let round = 1; round <= rounds || lost.done * lost.undone === 0; round += 1) {
        expect(round).toBeLessThan(maxRounds)
        const all = await preparedAll(round, keys)
        const { worker, sqld } = stack()
        const victim = victims[round % victims.length] ?? 'both'
        const parts = { worker: [worker], sqld: [sqld], both: [worker, sqld] }[victim]
        const first = all.map(async ({ send }) => (await send().catch(() => null))?.status ?? 0)
        await new Promise((resolve) => setTimeout(resolve, next() * longest))
        for (const part of parts) part.kill('SIGKILL')
        const answers = await Promise.all(first)
        for (const part of parts) await part.start()
        await Promise.all(
          all.map(async ({ name, method, send, rows }, at) => {
            const { before, after, status } = known.get(name) ?? expect.unreachable()
            const found = await rows()
            const isDone = found === after
            if (!isDone) expect([name, victim, found]).toEqual([name, victim, before])
            const isAnswered = (answers[at] ?? 0) >= 200 && (answers[at] ?? 0) < 300
            if (isAnswered) expect([name, victim, isDone]).toEqual([name, victim, true])
            else lost[isDone ? 'done' : 'undone'] += 1
            const again = await send()
            expect([name, victim, await rows()]).toEqual([name, victim, after])
            if (method !== 'DELETE') expect([name, again.status]).toEqual([name, status])
          }),
        )
      }
      await stack().db.batch([
        { sql: `insert into memory_index (memory_index) values ('integrity-check')`, values: [] },
      ])
    },
  )
})
