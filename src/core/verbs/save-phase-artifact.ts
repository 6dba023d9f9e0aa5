import type {
  Phase,
  PhaseArtifact,
  PhaseImport,
  PhaseImported,
  PhaseSave,
} from '../../contract/phase.ts'
import type { Clock, Crypto, Db } from '../ports.ts'
import {
  storePhaseImport,
  storePhaseArtifact,
  type Saver,
  openPhaseSessions,
  presentPhases,
} from '../registry/phases/phases.ts'
import type { SessionApi } from '../session/session.ts'

interface PhasePorts {
  db(): Db
  crypto: Pick<Crypto, 'sha256'>
  now: Clock
  session(id: string): { phases: Pick<SessionApi['phases'], 'saved'> }
}

/** Stored first; then the sessions whose policies may wait for it hear of it. */
export async function savePhaseArtifact(
  ports: PhasePorts,
  saver: Saver,
  about: { change: string; phase: Phase },
  input: PhaseSave,
): Promise<PhaseArtifact> {
  const saved = await storePhaseArtifact(ports.db(), ports.crypto, ports.now(), saver, about, input)
  await tellSessions(ports, saver.organisationId, input.project, [about.change])
  return saved
}

export async function importPhaseArtifacts(
  ports: PhasePorts,
  saver: Saver,
  input: PhaseImport,
): Promise<PhaseImported> {
  const done = await storePhaseImport(ports.db(), ports.crypto, ports.now(), saver, input)
  const changes = [...new Set(input.artifacts.map(({ change }) => change))]
  if (!input.dryRun) await tellSessions(ports, saver.organisationId, input.project, changes)
  return done
}

/** Nobody is refused because a session cannot be told: it looks by itself when its next turn begins. */
async function tellSessions(
  ports: PhasePorts,
  organisationId: string,
  project: string,
  changes: readonly string[],
): Promise<void> {
  const db = ports.db()
  const sessions = await openPhaseSessions(db, { organisationId, project }).catch(() => [])
  if (sessions.length === 0) return
  for (const change of changes) {
    const key = { organisationId, project, change }
    const present = [...(await presentPhases(db, key).catch(() => []))]
    await Promise.allSettled(
      sessions.map((id) => ports.session(id).phases.saved({ organisationId }, change, present)),
    )
  }
}
