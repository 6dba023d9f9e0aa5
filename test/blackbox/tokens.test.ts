import { afterAll, describe, expect, test } from 'vitest'
import type { Session } from '../../src/contract/session.ts'
import { type FakeSandboxHost, startFakeSandboxHost } from '../support/sandbox-host.ts'
import { hosts, useStack } from '../support/stack.ts'

describe.each(hosts)('tokens for stand-ins on %s', (host) => {
  let sandboxHost: FakeSandboxHost
  const stack = useStack(host, async () => {
    sandboxHost = await startFakeSandboxHost()
    return { env: sandboxHost.env }
  })
  afterAll(() => sandboxHost.close())
  const mint = (session: Session, body: object = {}) =>
    stack().api('POST', `/v1/sessions/${session.id}/tokens`, body)
  const codeOf = async (session: Session, body: object) => {
    const { token } = (await mint(session, body)).json
    const { status, json } = await stack().call(token, session, 'noop', 'id')
    return [status, json.error?.code]
  }

  test('[AUTH11] a session without a sandbox gets the tokens that are asked for', async () => {
    const session = await stack().createSession({ sandbox: 'none' })
    const { status, json } = await mint(session)
    expect(status).toBe(201)
    expect(json.expiresAt).toBeGreaterThan(Date.now() + 3_500_000)
    expect(await codeOf(session, {})).toEqual([200, undefined])
    expect(await codeOf(session, { lifetimeSeconds: 0 })).toEqual([401, 'token_expired'])
    expect(await codeOf(session, { lifetimeSeconds: -60 })).toEqual([401, 'token_expired'])
    expect(await codeOf(session, { source: 'cli' })).toEqual([403, 'not_sandbox'])
    expect(await codeOf(session, { generation: 2 })).toEqual([403, 'old_generation'])
    await stack().api('POST', `/v1/sessions/${session.id}/replace`, {})
    expect(await codeOf(session, {})).toEqual([200, undefined])
    expect((await mint(session, { lifetimeSeconds: 3601 })).status).toBe(400)
  })

  test('[AUTH11] a session with a sandbox gets none, in whatever state', async () => {
    const session = await stack().createSession({ sandbox: 'local' })
    const codes = [(await mint(session)).json.error.code]
    await stack().api('POST', `/v1/sessions/${session.id}/close`, {})
    codes.push((await mint(session)).json.error.code)
    expect(codes).toEqual(['wrong_state', 'wrong_state'])
  })
})
