import { describe, expect, test } from 'vitest'
import { hostsOf, until, useStack } from '../support/stack.ts'

const outageMs = 20_000

// Both hosts at once: most of the time is the outage itself.
describe.concurrent.each(hostsOf(import.meta.filename))(
  'libSQL stopped for 20 s under load on %s',
  (host) => {
    // Its own: the others' rows would count.
    const stack = useStack(host, async () => ({}))

    test(
      '[OUT2] callbacks go on, nothing is lost, rows arrive once and in order',
      { timeout: 240_000 },
      async () => {
        const sessions = await Promise.all(
          Array.from({ length: 4 }, async () => {
            const session = await stack().createSession()
            return { session, token: await stack().token(session), calls: 0 }
          }),
        )
        await stack().sqld.stop()
        const stoppedAt = Date.now()
        let loading = true
        const load = sessions.map(async (own) => {
          while (loading) {
            const id = `call-${own.calls}`
            const answer = await stack().call(own.token, own.session, 'noop', id, { text: id })
            expect([answer.status, answer.json.result]).toEqual([200, id])
            own.calls += 1
            // A steady load, not as much as the machine can do.
            await new Promise((resolve) => setTimeout(resolve, 25))
          }
        })
        // The key was seen in the last 30 s, so its owner may still look; the lag shows.
        const lagging = await until(async () => {
          const { json } = await stack().api('GET', `/v1/sessions/${sessions[0]?.session.id}`)
          return json.outbox.lagMs > 5000 && json.outbox
        })
        expect(lagging.pending).toBeGreaterThan(0)
        const status = await stack().api('GET', '/v1/status')
        expect([status.status, status.json.libsql.reachable]).toEqual([200, false])
        await until(() => Date.now() - stoppedAt >= outageMs, outageMs + 10_000)
        await stack().sqld.start()
        // The load goes on while the rows of the outage arrive.
        await until(
          async () =>
            (await stack().db.all('select 1 from session_tool_invocations limit 100')).length ===
            100,
          45_000,
        )
        loading = false
        await Promise.all(load)

        for (const { session, calls } of sessions) {
          expect(calls).toBeGreaterThan(50)
          const rows = await until(async () => {
            const found = await stack().db.all<{
              tool_call_id: string
              status: string
              attempts: number
              outbox_seq: number
            }>(
              `select tool_call_id, status, attempts, outbox_seq from session_tool_invocations
           where session_id = ? order by outbox_seq`,
              session.id,
            )
            return found.filter((row) => row.status === 'settled').length === calls && found
          }, 240_000)
          expect(rows.map((row) => row.tool_call_id)).toEqual(
            Array.from({ length: calls }, (_, n) => `call-${n}`),
          )
          expect(rows.every(({ attempts }) => attempts === 1)).toBe(true)
          await until(async () => {
            const { json } = await stack().api('GET', `/v1/sessions/${session.id}`)
            return json.outbox.pending === 0
          })
        }
        const after = await stack().api('GET', '/v1/status')
        expect(after.json).toMatchObject({
          libsql: { reachable: true },
          outbox: { deadLetters: [] },
        })
      },
    )
  },
)
