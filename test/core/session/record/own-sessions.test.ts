import { expect, test } from 'vitest'
import { testCaller, TestSession } from '../../../support/session.ts'

const stranger = { ...testCaller, keyId: `key_${'2'.repeat(20)}`, memberId: 'mbr_other' }
const refused = { code: 'forbidden' }

test('[MBR10] what cannot be undone is for the member who has made the session, with any key of theirs, and for admins', async () => {
  const close = async (by: object) => {
    const session = new TestSession()
    await session.create()
    return session.actor.api.self.close({ ...testCaller, ...by }, '')
  }
  await expect(close(stranger)).rejects.toMatchObject(refused)
  // The key alone is not the member.
  await expect(close({ memberId: 'mbr_other' })).rejects.toMatchObject(refused)
  for (const by of [{ keyId: stranger.keyId }, { ...stranger, scopes: ['admin'] }])
    expect(await close(by)).toMatchObject({ status: 'closed' })
})

test('[MBR10] a session of a release without members belongs to the key that has made it', async () => {
  const close = async (by: object) => {
    const session = new TestSession()
    await session.create()
    session.sql.run('update session set member_id = null')
    session.restart()
    return session.actor.api.self.close({ ...testCaller, ...by }, '')
  }
  await expect(close({ keyId: stranger.keyId })).rejects.toMatchObject(refused)
  expect(await close({ memberId: 'mbr_other' })).toMatchObject({ status: 'closed' })
})
