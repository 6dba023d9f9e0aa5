import { expect, test } from 'vitest'
import { keepCreationsMs, OrganisationActor } from '../../src/core/organisations/organisation.ts'
import { memorySql } from '../support/sql.ts'

test('[SES] a creation key stands for one session for a day', async () => {
  let now = 1000
  const sql = memorySql()
  const organisation = new OrganisationActor(sql, () => now)
  expect(await organisation.claimCreation('k', 'body', 'ses_1')).toBe('ses_1')
  now += keepCreationsMs
  expect(await organisation.claimCreation('k', 'body', 'ses_2')).toBe('ses_1')
  // A new instance over the same database: the object was evicted.
  const again = new OrganisationActor(sql, () => now)
  expect(await again.claimCreation('k', 'body', 'ses_3')).toBe('ses_1')
  await expect(again.claimCreation('k', 'other', 'ses_3')).rejects.toMatchObject({
    code: 'key_conflict',
  })
  now += 1
  expect(await again.claimCreation('k', 'other', 'ses_3')).toBe('ses_3')
})
