import type { ProofMode } from '../../contract/evidence.ts'
import { linkProtocols } from '../../contract/link.ts'
import type { DeploymentStatus, Status } from '../../contract/status.ts'
import { opencodeVersion, version } from '../../contract/version.ts'
import type { Clock, Db, LedgerStatus } from '../ports.ts'
import { countOpenSessions } from '../registry/sessions.ts'

interface ViewStatusPorts {
  db(): Db
  /** Of one organisation; null: of all. */
  ledgerStatus(organisationId: string | null): Promise<LedgerStatus>
  now: Clock
  host: Status['host']
  config: { proofMode: ProofMode }
}

/** How the deployment is doing, as far as it concerns the organisation. It answers also while libSQL is away, and then says so. */
export async function viewStatus(ports: ViewStatusPorts, organisationId: string): Promise<Status> {
  const [{ live, ...libsql }, ledger] = await Promise.all([
    probe(ports, organisationId),
    ports.ledgerStatus(organisationId),
  ])
  return {
    version,
    host: ports.host,
    versions: { gantry: version, opencode: opencodeVersion, link: String(linkProtocols[0]) },
    libsql,
    outbox: {
      ...lagOf(ports, ledger),
      ...(await ownDeadLetters(ports, organisationId, ledger)),
    },
    evidence: { mode: ports.config.proofMode },
    sessions: { live },
  }
}

/** Of all organisations, for whoever runs the deployment. */
export async function viewDeploymentStatus(
  ports: Pick<ViewStatusPorts, 'ledgerStatus' | 'now' | 'host'>,
): Promise<DeploymentStatus> {
  const ledger = await ports.ledgerStatus(null)
  const { deadLetters, deadLetterCount } = ledger
  return {
    version,
    host: ports.host,
    outbox: { ...lagOf(ports, ledger), deadLetters, deadLetterCount },
  }
}

const lagOf = ({ now }: Pick<ViewStatusPorts, 'now'>, ledger: LedgerStatus) => ({
  lagMs: ledger.oldestAt === null ? 0 : Math.max(0, now() - ledger.oldestAt),
  pendingSessions: ledger.pendingSessions,
  reason: ledger.reason,
})

async function probe(ports: ViewStatusPorts, organisationId: string) {
  const startedAt = ports.now()
  try {
    const live = await countOpenSessions(ports.db(), organisationId)
    return { reachable: true, latencyMs: ports.now() - startedAt, error: null, live }
  } catch {
    const error = 'The database cannot be reached'
    return { reachable: false, latencyMs: null, error, live: null }
  }
}

/** What an earlier release has recorded names no organisation; a caller sees only what is its own. */
async function ownDeadLetters(
  ports: ViewStatusPorts,
  organisationId: string,
  { deadLetters, deadLetterCount, unowned }: LedgerStatus,
): Promise<Pick<LedgerStatus, 'deadLetters' | 'deadLetterCount'>> {
  if (unowned.length === 0) return { deadLetters, deadLetterCount }
  const rows = await ports
    .db()
    .all<{ id: string }>(
      'select id from sessions where organisation_id = ? and id in (select value from json_each(?))',
      organisationId,
      JSON.stringify(unowned.map(({ sessionId }) => sessionId)),
    )
    .catch(() => [])
  // The organisation writes rows of its own, too.
  const own = new Set([organisationId, ...rows.map(({ id }) => id)])
  const found = unowned.filter(({ sessionId }) => own.has(sessionId))
  return {
    deadLetters: [...deadLetters, ...found],
    deadLetterCount: deadLetterCount + found.length,
  }
}
