import { OfferedAbility } from '../../../contract/offered-ability.ts'
import type { ModelAbilities } from '../calls/tools/tool.ts'
import { activeExecution, findExecution } from '../executions/rows.ts'
import type { Offers } from '../offers/offers.ts'
import { offeredAbilities } from '../offers/offered.ts'
import type { SessionKernel } from '../record/kernel.ts'
import type { Abilities } from './abilities.ts'
import { withCalledAbilities } from './called-abilities.ts'
import { viewExecutionRecord } from './execution-view.ts'

/** What the model may do about abilities in one call of a gateway tool. */
export function abilitiesForModel(
  kernel: SessionKernel,
  abilities: Pick<Abilities, 'runForModel' | 'cancelForModel'>,
  offers: Pick<Offers, 'copyOf'>,
): (operationId: string, generation: number) => ModelAbilities {
  const { sql } = kernel.ports
  return (operationId, generation) => ({
    offered() {
      const { abilities: items, runner } = offeredAbilities(sql)
      return {
        items: items.map((one) => OfferedAbility.parse(one)),
        agent: runner.agent ?? 'default',
      }
    },
    run: async (create) =>
      abilities.runForModel(
        generation,
        operationId,
        await withCalledAbilities(offers.copyOf, create),
      ),
    status(id) {
      const row = id === null ? activeExecution(sql) : findExecution(sql, id)
      return row === undefined ? null : viewExecutionRecord(sql, row)
    },
    cancel: (id, reason) => abilities.cancelForModel(generation, id, reason),
  })
}
