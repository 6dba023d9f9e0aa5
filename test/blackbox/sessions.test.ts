import { describe, expect, test } from 'vitest'
import type { Session } from '../../src/contract/session.ts'
import { createCryptoSessionIds } from '../../src/adapters/web-crypto.ts'
import { TestAgent } from '../support/agent.ts'
import { readStream } from '../support/sse.ts'
import { hosts, request, until, useStack } from '../support/stack.ts'

describe.each(hosts)('sessions on %s', (host) => {
  const stack = useStack(host)
  const rowsOf = async (session: Pick<Session, 'id'>) => {
    const tables = ['sessions', 'turns', 'session_tool_invocations', 'artifacts']
    const found = tables.map((table) => {
      const column = table === 'sessions' ? 'id' : 'session_id'
      return stack().db.all(`select 1 from ${table} where ${column} = ?`, session.id)
    })
    return (await Promise.all(found)).reduce((sum, rows) => sum + rows.length, 0)
  }

  test('[SES3] an id that this deployment has not made, or made but not used, is 404 on every route', async () => {
    const secret = Uint8Array.from(atob(stack().env['GANTRY_ID_SECRET'] ?? ''), (letter) =>
      letter.charCodeAt(0),
    )
    const unused = await createCryptoSessionIds(secret).mint()
    for (const id of [
      unused,
      `${unused.slice(0, -1)}${unused.endsWith('0') ? '1' : '0'}`,
      `ses_${'0'.repeat(30)}`,
    ]) {
      const answers = await Promise.all([
        stack().api('GET', `/v1/sessions/${id}`),
        stack().api('GET', `/v1/sessions/${id}/events`),
        stack().api('POST', `/v1/sessions/${id}/prompts`, { text: 'x' }),
        stack().api('POST', `/v1/sessions/${id}/close`, {}),
        stack().api('DELETE', `/v1/sessions/${id}`),
        stack().call(await stack().token({ id } as Session), { id } as Session, 'noop', 'x'),
      ])
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404))
      expect(await rowsOf({ id } as Session)).toBe(0)
    }
  })

  test('[SES4] a session of another organisation is 404, and not in the list', async () => {
    const session = await stack().createSession()
    const other = `org_${'0'.repeat(20)}`
    const token = await stack().token(session, { organisationId: other })
    const answer = await stack().call(token, session, 'noop', 'x')
    expect([answer.status, answer.json.error.code]).toEqual([404, 'not_found'])
    expect(await TestAgent.dial(stack().url, session.id, token).opened()).toBe(false)
  })

  test('[SES6] deleting erases the rows in libSQL, the content that only it holds, its link and its streams', async () => {
    const [kept, gone] = [await stack().createSession(), await stack().createSession()]
    const upload = async (session: Session, bytes: string) => {
      const token = await stack().token(session)
      const url = `${stack().url}/sandbox/${session.id}/artifacts`
      const { json } = await request('PUT', url, token, bytes, {
        'content-type': 'application/octet-stream',
      })
      return json as { sha256: string; size: number }
    }
    const verify = async (session: Session, ...texts: string[]) => {
      const agent = TestAgent.dial(stack().url, session.id, await stack().token(session))
      await agent.greet()
      const answer = stack().call(await stack().token(session), session, 'verify', 'v')
      const { id } = await agent.next('command')
      const files = await Promise.all(
        texts.map(async (text) => ({
          path: `${text}.txt`,
          contentType: 'text/plain',
          ...(await upload(session, text)),
        })),
      )
      agent.send({ t: 'result', commandId: id, ok: true, data: { files } })
      expect((await answer).json.success).toBe(true)
      return { agent, hashes: files.map(({ sha256 }) => sha256) }
    }
    const { hashes } = await verify(kept, 'shared')
    const own = await verify(gone, 'shared', 'alone')
    await until(async () => (await rowsOf(gone)) >= 4 && (await rowsOf(kept)) >= 3)
    let watched = 0
    const watching = readStream(
      `${stack().url}/v1/sessions/${gone.id}/events`,
      stack().adminKey,
      (events) => {
        watched = events.length
        return false
      },
    )
    await until(() => watched > 0)

    expect((await stack().api('DELETE', `/v1/sessions/${gone.id}`)).status).toBe(204)
    expect((await stack().api('GET', `/v1/sessions/${gone.id}`)).status).toBe(404)
    expect((await stack().api('DELETE', `/v1/sessions/${gone.id}`)).status).toBe(404)
    await until(async () => (await rowsOf(gone)) === 0)
    expect((await own.agent.closed).code).toBe(4403)
    // [EVT7] the stream ends by itself.
    expect((await watching).length).toBeGreaterThan(0)
    const blobs = await stack().db.all<{ sha256: string }>('select sha256 from blob_index')
    expect(blobs.map(({ sha256 }) => sha256)).toEqual(hashes)
    const { json } = await stack().api('GET', `/v1/sessions/${kept.id}/artifacts`)
    expect(json.items).toHaveLength(1)
    await stack().restart()
    expect((await stack().api('GET', `/v1/sessions/${gone.id}`)).status).toBe(404)
  })

  test('[SES6] an Idempotency-Key of a deleted session does not bring it back', async () => {
    const create = () =>
      stack().api('POST', '/v1/sessions', {}, { headers: { 'idempotency-key': 'deleted' } })
    const { json } = await create()
    const token = await stack().token(json as Session)
    await stack().api('DELETE', `/v1/sessions/${json.id}`)
    await until(async () => (await rowsOf(json as Session)) === 0)
    const again = await create()
    expect([again.status, again.json.error?.code]).toEqual([409, 'wrong_state'])
    expect((await stack().call(token, json as Session, 'noop', 'x')).status).toBe(404)
  })

  test('[SES8] the list is newest first and goes on by cursor', async () => {
    const made: string[] = []
    for (let n = 0; n < 5; n++) made.unshift((await stack().createSession({ project: 'paged' })).id)
    await until(
      async () => (await stack().api('GET', '/v1/sessions?project=paged')).json.items.length === 5,
    )
    const seen: string[] = []
    for (let cursor = ''; ;) {
      const { json } = await stack().api(
        'GET',
        `/v1/sessions?project=paged&limit=2${cursor && `&cursor=${cursor}`}`,
      )
      seen.push(...json.items.map(({ id }: Session) => id))
      if (!json.nextCursor) break
      cursor = json.nextCursor as string
    }
    expect(seen).toEqual(made)
  })

  test('[API3] [AUTH7] bad input on a real host: a clear code and path, never a 500', async () => {
    const session = await stack().createSession()
    const token = await stack().token(session)
    const tools = `/proliferate/${session.id}/tools/noop`
    const deep = `{"tool_call_id":"x","args":{"text":${'['.repeat(5000)}${']'.repeat(5000)}}}`
    const cases: [path: string, credential: string, body: string, status: number, field: string][] =
      [
        [tools, token, '{', 400, ''],
        [tools, token, '{"args":{}}', 400, 'tool_call_id'],
        [tools, token, '{"tool_call_id":"a\\u0000b"}', 400, 'tool_call_id'],
        [tools, token, '{"tool_call_id":"\\ud800"}', 400, 'tool_call_id'],
        [tools, token, '{"tool_call_id":"x","args":[]}', 400, 'args'],
        [tools, token, '{"tool_call_id":"x","more":1}', 400, 'more'],
        [tools, token, deep, 400, 'args'],
        [tools, token, `{"tool_call_id":"x","args":{"text":"${'x'.repeat(2 ** 20)}"}}`, 413, ''],
        ['/v1/sessions', stack().adminKey, '{"title":5}', 400, 'title'],
        ['/v1/sessions', stack().adminKey, '{"nope":1}', 400, 'nope'],
        ['/v1/sessions', 'wrong', '{"nope":1', 401, ''],
      ]
    for (const [path, credential, body, status, field] of cases) {
      const answer = await stack().api('POST', path, body, { credential })
      expect([path, body.slice(0, 40), answer.status]).toEqual([path, body.slice(0, 40), status])
      expect(answer.headers.get('x-request-id')).toBeTruthy()
      if (field) expect(JSON.stringify(answer.json.error.details)).toContain(field)
    }
    const { json } = await stack().api('GET', `/v1/sessions/${session.id}/calls`)
    expect(json.items).toEqual([])
  })
})
