import { expect, test } from 'vitest'
import type { Phase } from '../../../../src/contract/phase.ts'
import {
  approvePhaseArtifact,
  loadPhaseArtifact,
  loadPhaseReadiness,
  loadPhaseStatus,
  storePhaseArtifact,
  listPhaseChanges,
  listPhaseRevisions,
  openPhaseSessions,
  presentPhasesByChange,
} from '../../../../src/core/registry/phases/phases.ts'
import { hashText } from '../../../../src/core/hash.ts'
import { memoryDb } from '../../../support/memory-db.ts'

const crypto = { sha256: async (text: string | Uint8Array) => hashText(String(text)) }

function world() {
  const db = memoryDb()
  let now = 0
  const keyOf = (project = 'web', change = 'login', organisationId = 'org_a') => ({
    ...{ organisationId, project, change },
  })
  type Key = ReturnType<typeof keyOf>
  const save = (phase: Phase, content: string, key: Key = keyOf(), expectedRevision?: number) =>
    storePhaseArtifact(
      ...([db, crypto, (now += 1)] as const),
      { organisationId: key.organisationId, savedBy: 'k', memberId: 'writer' },
      { change: key.change, phase },
      {
        project: key.project,
        content,
        ...(expectedRevision !== undefined && { expectedRevision }),
      },
    )
  const word = (phase: Phase, content: string, decision: 'approved' | 'rejected', by: string) => {
    const sha256 = hashText(content)
    const caller = { keyId: `key of ${by} ${now}`, keyMemberId: by, memberId: by, owner: by }
    const said = { sha256, decision, reason: 'r' }
    return approvePhaseArtifact(db, (now += 1), caller, keyOf(), phase, said)
  }
  const status = () => loadPhaseStatus(db, keyOf())
  return { db, keyOf, save, word, status }
}

test('[SDD6] [SDD8] what is saved in other places neither makes stale nor takes away', async () => {
  const { keyOf, save, status } = world()
  await save('explore', 'one')
  await save('proposal', 'two')
  const before = await status()
  for (const key of [keyOf('other'), keyOf('web', 'logout'), keyOf('web', 'login', 'org_b')])
    for (const text of ['a', 'b', 'c']) {
      await save('explore', text, key)
      await save('proposal', text, key)
    }
  expect(await status()).toEqual(before)
  expect(
    before.artifacts.map(({ project, change, staleSince }) => [project, change, staleSince]),
  ).toEqual([
    ['web', 'login', null],
    ['web', 'login', null],
  ])
})

test('[SDD8] an artifact is not made stale by its own next revision, but by that of an earlier phase, from the first on', async () => {
  const { save, status } = world()
  await save('explore', 'one')
  await save('proposal', 'two')
  await save('proposal', 'two again')
  const stale = async () => (await status()).artifacts.map(({ staleSince }) => staleSince)
  expect(await stale()).toEqual([null, null])
  const { createdAt } = await save('explore', 'changed')
  await save('explore', 'changed again')
  expect(await stale()).toEqual([null, createdAt])
})

test('[SDD9] a word is on one phase and one revision; a member’s last one counts, with its key and time', async () => {
  const { db, keyOf, save, word, status } = world()
  await save('explore', 'one')
  await save('proposal', 'one')
  await word('explore', 'one', 'rejected', 'anna')
  const last = await word('explore', 'one', 'approved', 'anna')
  await word('proposal', 'one', 'rejected', 'bert')
  const approved = async () => (await status()).artifacts.map((one) => one.approved)
  expect(await approved()).toEqual([true, false])
  const { approvals } = await loadPhaseArtifact(db, keyOf(), 'explore', null)
  expect(approvals).toEqual([last])
  await save('explore', 'two')
  expect(await approved()).toEqual([false, false])
  expect((await loadPhaseArtifact(db, keyOf(), 'explore', null)).approvals).toEqual([])
  const first = await loadPhaseArtifact(db, keyOf(), 'explore', 1)
  expect([first.isNewest, first.approvals]).toEqual([false, [last]])
  await expect(word('explore', 'one', 'approved', 'bert')).rejects.toMatchObject({
    ...{ code: 'wrong_state', message: expect.stringContaining('"sdd/login/explore"') },
    details: [{ path: 'sha256' }],
  })
  await expect(word('explore', 'two', 'approved', 'writer')).rejects.toThrow('"sdd/login/explore"')
})

test('[SDD7] an expected revision of what is not there is refused and says so', async () => {
  const { save } = world()
  await expect(save('explore', 'one', undefined, 3)).rejects.toThrow(
    /revision (is )?0|no revision|0/,
  )
  expect((await save('explore', 'one', undefined, 0)).revision).toBe(1)
})

test('[SDD3] [SDD5] lists: of each change when it was last saved, as many as are asked for', async () => {
  const { db, keyOf, save } = world()
  for (const text of ['a', 'b', 'c']) await save('explore', text)
  const { createdAt } = await save('proposal', 'd')
  await save('explore', 'x', keyOf('web', 'zeta'))
  const place = { organisationId: 'org_a', project: 'web' }
  const changes = await listPhaseChanges(db, place, { limit: 1, after: null })
  expect(changes).toMatchObject([{ change: 'login', updatedAt: createdAt, next: 'spec' }])
  const revisions = await listPhaseRevisions(db, keyOf(), 'explore', { limit: 2, before: null })
  expect(revisions.map(({ revision }) => revision)).toEqual([3, 2])
  const present = await presentPhasesByChange(db, place, ['login', 'zeta', 'none'])
  expect(present.get('login')?.toSorted()).toEqual(['explore', 'proposal'])
  expect(present.get('none')).toBeUndefined()
})

test('[SDD2] the hint says what to do: work, save again, or save what is missing', async () => {
  const { db, keyOf, save } = world()
  const hint = async (phase: Phase) => (await loadPhaseReadiness(db, keyOf(), phase)).hint
  expect(await hint('explore')).toBe('Work on it, then save sdd/login/explore')
  await save('explore', 'one')
  expect(await hint('explore')).toContain('is there')
  expect(await hint('spec')).toContain('save sdd/login/proposal first')
})

test('[SDD13] the newest open sessions of the project are told, if a policy names phases', async () => {
  const { db } = world()
  const add = (id: string, status: string, at: number, project = 'web') =>
    db.batch([
      {
        sql: `insert into sessions (id, organisation_id, project, title, status, provider, sandbox_state, generation,
                created_at, outbox_seq) values (?, 'org_a', ?, '', ?, 'none', 'none', 1, ?, 1)`,
        values: [id, project, status, at],
      },
    ])
  await add('ses_old', 'open', 1)
  await add('ses_new', 'open', 2)
  await add('ses_closed', 'closed', 3)
  await add('ses_else', 'open', 4, 'api')
  const told = () => openPhaseSessions(db, { organisationId: 'org_a', project: 'web' })
  expect(await told()).toEqual([])
  await db.batch([
    {
      sql: `insert into policies (organisation_id, project, version, name, format, source, created_by, created_at)
            values ('org_a', 'web', 1, 'p', 'yaml', 'sdd: {}', 'k', 1)`,
      values: [],
    },
  ])
  expect(await told()).toEqual(['ses_new', 'ses_old'])
})
