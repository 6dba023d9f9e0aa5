import type { AbilityPut, AbilityPutResult } from '../../contract/stored-ability.ts'
import type { Crypto } from '../ports.ts'
import { newestAbilityHash, putAbility } from '../registry/abilities/abilities.ts'
import { readAbilityFolder } from '../registry/abilities/folder.ts'
import type { Caller } from '../session/record/caller.ts'
import { mustBePromoted, type PromotionPorts } from './promote-revision.ts'

interface Ports extends PromotionPorts {
  crypto: Pick<Crypto, 'random' | 'sha256'>
}

/** Stores an ability, which counts at once, if its gates let it. */
export async function releaseAbility(
  ports: Ports,
  caller: Caller,
  put: AbilityPut,
): Promise<AbilityPutResult> {
  const { ability, hash } = await readAbilityFolder(put, ports.crypto)
  const owner = { organisationId: caller.organisationId, project: put.project ?? null }
  await mustBePromoted(ports, caller, {
    ...{ kind: 'ability', project: owner.project, name: ability.name, sha256: hash },
    current: () => newestAbilityHash(ports.db(), owner, ability.name),
  })
  return await putAbility({ db: ports.db(), crypto: ports.crypto, now: ports.now() }, caller, put)
}
