import { expect, test } from 'vitest'
import { createWebCrypto } from '../../../../src/adapters/web-crypto.ts'
import { climbLadder } from '../../../../src/core/actor/ladder.ts'
import { saveAbilitySecrets, SecretInputs } from '../../../../src/core/session/abilities/secrets.ts'
import { sessionLadder } from '../../../../src/core/session/rungs/ladder.ts'
import { secretKey } from '../../../support/keys.ts'
import { memorySql } from '../../../support/sql.ts'

test('[ABL29] secret inputs that are not open are not used: an execution has all of its own or none', async () => {
  const sql = memorySql()
  climbLadder(sql, sessionLadder)
  const secrets = new SecretInputs(sql, createWebCrypto([secretKey('s')]))
  const sealed = await secrets.seal({ token: 'hunter2-hunter2' })
  saveAbilitySecrets(sql, 'exe_1', sealed)
  await secrets.open(1)
  const areOpen = (secretsState: number, areSecretsOpen = true) =>
    secrets.areOpen({ secretsState, areSecretsOpen })
  expect([areOpen(1), areOpen(2), areOpen(1, false)]).toEqual([true, false, false])
  // It is not at work, so its value was not opened.
  expect(() => secrets.of('exe_1')).toThrow('Cannot use secret input "token": it is not open')
  expect(secrets.of('exe_2')).toEqual({})
  secrets.close()
  expect(areOpen(1)).toBe(false)
})
