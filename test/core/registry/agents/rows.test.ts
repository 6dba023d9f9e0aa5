import { expect, test } from 'vitest'
import { AgentDefinition } from '../../../../src/contract/agent.ts'
import type { Db } from '../../../../src/core/ports.ts'
import { archiveAgent, findAgent, storeAgent } from '../../../../src/core/registry/agents/agents.ts'
import type { Place } from '../../../../src/core/registry/place.ts'
import { hashText } from '../../../../src/core/hash.ts'
import { memoryDb } from '../../../support/memory-db.ts'

const place: Place = { organisationId: 'org_a', project: 'web', scope: 'project', memberId: '' }
const reader = { organisationId: 'org_a', memberId: 'mbr_a' }
let ids = 0
const crypto = {
  sha256: async (text: string | Uint8Array) => hashText(String(text)),
  random: (length: number) => String((ids += 1)).padStart(length, '0'),
}
const store = (db: Db, name: string, given: object = {}) =>
  storeAgent(db, crypto, 1, { place, name, definition: AgentDefinition.parse(given), keyId: 'k' })
const sub = { mode: 'subagent', parent: 'lead' }

/** Right before what it writes, somebody archives the parent. */
async function raced(db: Db): Promise<Db> {
  const { id } = await store(db, 'lead')
  return {
    all: (...asked) => db.all(...asked),
    async batch(statements) {
      await archiveAgent(db, 2, reader, id)
      await db.batch(statements)
    },
  }
}

test('[AGT2] a subagent whose parent is archived meanwhile is refused, and there is none', async () => {
  const db = memoryDb()
  const late = store(await raced(db), 'helper', sub)
  await expect(late).rejects.toMatchObject({ code: 'wrong_state' })
  expect(await findAgent(db, place, 'helper')).toBeNull()
})

test('[AGT2] a change of a subagent whose parent is archived meanwhile is refused, and it stays as it was', async () => {
  const db = memoryDb()
  const overtaken = await raced(db)
  const before = await store(db, 'helper', sub)
  await store(db, 'twin', { ...sub, description: 'another' })
  const late = store(overtaken, 'helper', { ...sub, description: 'another' })
  await expect(late).rejects.toMatchObject({ code: 'wrong_state' })
  const { revision, description } = (await findAgent(db, place, 'helper'))!
  expect([revision, description]).toEqual([before.revision, before.description])
})
