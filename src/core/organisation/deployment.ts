import type { DeploymentKillSwitch } from '../../contract/kill-switch.ts'
import { jitteredBackoffMs } from '../actor/jitter.ts'
import { clearDeadline, setDeadline } from '../actor/deadlines.ts'
import type { Sql } from '../ports.ts'
import type { RoomOf } from '../actor/room.ts'
import type { DeploymentApi, DeploymentSwitch } from './record/api.ts'
import type { OrganisationKernel } from './record/kernel.ts'
import { hearDeploymentSwitch, isNews, loadSwitch } from './firewall/switches.ts'
import { deploymentId } from './record/ports.ts'
import type { Shutdown } from './shutdown.ts'

/**
 * The room between an organisation and the deployment's object, which speaks for all organisations. On the one side each
 * organisation asks for the deployment's kill switch and hears of its changes; on the other side the deployment's object
 * knows its members, and at the deadline `tell` it tells those that have not heard, until all have.
 */
export function createDeployment(
  kernel: OrganisationKernel,
  watch: DeploymentWatch,
  shutdown: Shutdown,
): RoomOf<DeploymentApi> {
  return {
    api: {
      hear: async (news) => watch.hear(news),
      admit: async (organisationId) =>
        kernel.commit((sql) => admitOrganisation(sql, organisationId)),
      killSwitch: async () => kernel.read(viewDeploymentSwitch),
      putToSleep: () => shutdown.putToSleep(),
    },
    deadlines: { tell: (_argument, attempt) => tellMembers(kernel, attempt) },
  }
}

/** An answer of the deployment's object holds so long. */
const freshMs = 3000
const tellAtOnce = 20

/**
 * What one organisation knows of the deployment's switch. `refresh` promises that what is known is a few seconds old at
 * most; sandboxes.ts calls it before each place is given.
 */
export class DeploymentWatch {
  readonly #kernel: OrganisationKernel
  #askedAt = -Infinity
  /** All who come meanwhile wait for the same answer. */
  #asking: Promise<void> | null = null

  constructor(kernel: OrganisationKernel) {
    this.#kernel = kernel
  }

  /** Throws if the deployment's object cannot be asked: then no place may be given. */
  async refresh(): Promise<void> {
    if (this.#kernel.ports.now() - this.#askedAt < freshMs) return
    this.#asking ??= this.#ask().finally(() => (this.#asking = null))
    await this.#asking
  }

  async #ask(): Promise<void> {
    const { ports } = this.#kernel
    const askedAt = ports.now()
    const news = await ports.organisation(deploymentId).deployment.admit(ports.id)
    this.hear(news)
    this.#askedAt = askedAt
  }

  hear(news: DeploymentSwitch): void {
    if (!this.#kernel.read((sql) => isNews(loadSwitch(sql, 'deployment'), news))) return
    this.#kernel.commit((sql, now) => hearDeploymentSwitch(sql, now, news))
  }
}

// The deployment's object: who must be told.

/** One that asks for the first time has nothing running, and learns the present state by the answer. */
function admitOrganisation(sql: Sql, organisationId: string): DeploymentSwitch {
  const { version, on, reason } = loadSwitch(sql, 'own')
  sql.run('insert or ignore into members values (?, ?)', organisationId, version)
  return { version, on, reason }
}

/** Each organisation stops its own: here it only matters that it has heard. Those that have not are told again. */
async function tellMembers(kernel: OrganisationKernel, attempt: number): Promise<void> {
  const { version, on, reason } = kernel.read((sql) => loadSwitch(sql, 'own'))
  let failed = 0
  for (let after = ''; ;) {
    const some = kernel.read((sql) => untold(sql, version, after))
    const told = await Promise.all(some.map((id) => tell(kernel, id, { version, on, reason })))
    failed += told.filter((heard) => !heard).length
    if (some.length < tellAtOnce) break
    after = some.at(-1) ?? ''
  }
  kernel.commit((sql, now) => {
    // Changed meanwhile: that has set its own deadline.
    if (loadSwitch(sql, 'own').version !== version) return
    if (failed === 0) clearDeadline(sql, 'tell')
    else setDeadline(sql, 'tell', now + jitteredBackoffMs(attempt), attempt + 1)
  })
}

async function tell(
  kernel: OrganisationKernel,
  organisationId: string,
  news: DeploymentSwitch,
): Promise<boolean> {
  try {
    await kernel.ports.organisation(organisationId).deployment.hear(news)
  } catch (error) {
    const fields = { organisationId, error: String(error) }
    kernel.ports.log('warn', 'Cannot tell an organisation of the kill switch', fields)
    return false
  }
  kernel.commit((sql) =>
    sql.run(
      'update members set told_version = max(told_version, ?) where organisation_id = ?',
      news.version,
      organisationId,
    ),
  )
  return true
}

function untold(sql: Sql, version: number, after: string): string[] {
  return sql
    .all<{ id: string }>(
      `select organisation_id as id from members where told_version < ? and organisation_id > ?
       order by organisation_id limit ?`,
      version,
      after,
      tellAtOnce,
    )
    .map(({ id }) => id)
}

function viewDeploymentSwitch(sql: Sql): DeploymentKillSwitch {
  const { version, ...own } = loadSwitch(sql, 'own')
  const [row] = sql.all<{ organisations: number; untold: number | null }>(
    'select count(*) as organisations, sum(told_version < ?) as untold from members',
    version,
  )
  return { ...own, organisations: row?.organisations ?? 0, untold: row?.untold ?? 0 }
}
