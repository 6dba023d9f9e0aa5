import { Kernel } from '../../actor/kernel.ts'
import type { LogFields, Sql } from '../../ports.ts'
import { organisationLadder } from '../rungs/ladder.ts'
import type { OrganisationPorts } from './ports.ts'

/**
 * The kernel of an organisation. An organisation that nothing was ever written for has its tables as soon as something is
 * committed, so no caller has to create it first. All rooms of the organisation commit through it.
 */
export class OrganisationKernel extends Kernel<OrganisationPorts> {
  constructor(ports: OrganisationPorts) {
    super(ports, organisationLadder)
  }

  protected override about(): LogFields {
    return { organisationId: this.ports.id }
  }

  override commit<T>(work: (sql: Sql, now: number) => T): T {
    this.createTables()
    return super.commit(work)
  }

  read<T>(work: (sql: Sql, now: number) => T): T {
    this.createTables()
    return work(this.ports.sql, this.ports.now())
  }
}
