import { expect, test } from 'vitest'
import { keepCreationsMs } from '../../src/core/organisations/creations.ts'
import { TestDeployment } from '../support/organisation.ts'

test('[SES] a creation key stands for one session for a day', async () => {
  const world = new TestDeployment()
  const organisation = world.org
  expect(await organisation.claimCreation('k', 'body', 'ses_1')).toBe('ses_1')
  world.now += keepCreationsMs
  expect(await organisation.claimCreation('k', 'body', 'ses_2')).toBe('ses_1')
  // A new instance over the same database: the object was evicted.
  world.crash()
  const again = world.org
  expect(await again.claimCreation('k', 'body', 'ses_3')).toBe('ses_1')
  await expect(again.claimCreation('k', 'other', 'ses_3')).rejects.toMatchObject({
    code: 'key_conflict',
  })
  world.now += 1
  expect(await again.claimCreation('k', 'other', 'ses_3')).toBe('ses_3')
})

test('[TOOL5] an automation run belongs to the session that claimed it first, until that is deleted', async () => {
  const organisation = new TestDeployment().org
  await organisation.claimRun('run', 'ses_1')
  await organisation.claimRun('run', 'ses_1')
  const refused = { code: 'wrong_state' }
  await expect(organisation.claimRun('run', 'ses_2')).rejects.toMatchObject(refused)
  await organisation.releaseRun('run', 'ses_2')
  await expect(organisation.claimRun('run', 'ses_2')).rejects.toMatchObject(refused)
  await organisation.endCreation('ses_1')
  await organisation.claimRun('run', 'ses_2')
})
