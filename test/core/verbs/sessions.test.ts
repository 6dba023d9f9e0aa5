import { beforeAll, describe, expect, test } from 'vitest'
import { SessionCreate } from '../../../src/contract/session.ts'
import type { Caller } from '../../../src/core/session/record/caller.ts'
import { createLoneRun } from '../../../src/core/verbs/create-lone-run.ts'
import { createSession } from '../../../src/core/verbs/create-session.ts'
import { deleteSession } from '../../../src/core/verbs/delete-session.ts'
import { mintSandboxToken } from '../../../src/core/verbs/mint-sandbox-token.ts'
import { createTestApp, type TestApp } from '../../support/app.ts'
import { useLibsql } from '../../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let caller: Caller
const scratch = SessionCreate.parse({ sandbox: 'none' })

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  const key = await app.makeKey(await app.makeOrganisation(), 'admin')
  caller = {
    organisationId: key.organisationId,
    keyId: key.id,
    memberId: key.memberId,
    owner: key.owner,
  }
})

describe('verbs over sessions need no HTTP', () => {
  test('[SES2] the same key leads to the same session, with another body to a refusal', async () => {
    const first = await createSession(app.deps, caller, scratch, 'one')
    expect((await createSession(app.deps, caller, scratch, 'one')).id).toBe(first.id)
    expect((await createSession(app.deps, caller, scratch, null)).id).not.toBe(first.id)
    await expect(
      createSession(app.deps, caller, { ...scratch, title: 'other' }, 'one'),
    ).rejects.toMatchObject({ code: 'key_conflict' })
  })

  test('[SES6] a deleted session is gone, and its key does not bring it back', async () => {
    const { id } = await createSession(app.deps, caller, scratch, 'gone')
    await deleteSession(app.deps, caller, id)
    await expect(app.deps.session(id).self.view(caller)).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(createSession(app.deps, caller, scratch, 'gone')).rejects.toMatchObject({
      code: 'wrong_state',
    })
  })

  test('[SES6] if its creation cannot be ended, nothing is erased', async () => {
    const { id } = await createSession(app.deps, caller, scratch, null)
    const ports = {
      ...app.deps,
      organisation: (organisationId: string) => {
        const { creations } = app.deps.organisation(organisationId)
        return { creations: { ...creations, end: () => Promise.reject(new Error('away')) } }
      },
    }
    await expect(deleteSession(ports, caller, id)).rejects.toThrow('away')
    expect((await app.deps.session(id).self.view(caller)).status).toBe('open')
  })

  test('[MODE2] a creation that is refused leaves its automation run to the next', async () => {
    const automation = { ...scratch, clientType: 'automation', automationRunId: 'auto-1' } as const
    const claimed: string[] = []
    const organisation = (id: string) => {
      const { creations, pools } = app.deps.organisation(id)
      const claims = {
        claimRun: async (run: string) => void claimed.push(run),
        releaseRun: async (run: string) => void claimed.splice(claimed.indexOf(run), 1),
      }
      return { pools, creations: { ...creations, ...claims } }
    }
    await expect(
      createSession({ ...app.deps, organisation }, caller, automation, null),
    ).rejects.toMatchObject({ code: 'unprocessable' })
    expect(claimed).toEqual([])
  })

  test('a run of its own is made once per key, in one session', async () => {
    const input = { project: 'default', intent: 'Look into it' }
    const run = await createLoneRun(app.deps, caller, input, 'lone')
    expect(await createLoneRun(app.deps, caller, input, 'lone')).toEqual(run)
  })

  test('[AUTH11] a token is made for a session without a sandbox alone', async () => {
    const { id } = await createSession(app.deps, caller, scratch, null)
    const wanted = { lifetimeSeconds: 60, source: 'sandbox' }
    const { token } = await mintSandboxToken(app.deps, caller, id, wanted)
    expect(await app.deps.tokens.verify(token)).toMatchObject({
      state: 'valid',
      claims: { sub: id, org: caller.organisationId },
    })
    const withSandbox = () => ({
      self: {
        view: async () => {
          const view = await app.deps.session(id).self.view(caller)
          return { ...view, sandbox: { ...view.sandbox, provider: 'local' as const } }
        },
      },
    })
    await expect(
      mintSandboxToken({ ...app.deps, session: withSandbox }, caller, id, wanted),
    ).rejects.toMatchObject({ code: 'wrong_state' })
  })
})
