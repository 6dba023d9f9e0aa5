import { createRoute, z } from '@hono/zod-openapi'
import { linkProtocols } from '../contract/link.ts'
import { Status } from '../contract/status.ts'
import { opencodeVersion, version } from '../contract/version.ts'
import type { LedgerStatus } from '../core/ports.ts'
import { countOpenSessions } from '../core/sessions/list.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { json, refusals } from './openapi.ts'

const Health = z.object({ ok: z.literal(true), version: z.string() })

export function addStatusRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/healthz',
      summary: 'Whether the control plane answers',
      tags: ['status'],
      security: [],
      responses: { 200: json(Health, 'It does') },
    }),
    (c) => c.json({ ok: true as const, version }, 200),
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/status',
      summary: 'How the deployment is doing',
      tags: ['status'],
      ...doors.key('read'),
      responses: { 200: json(Status, 'The status'), ...refusals() },
    }),
    async (c) => {
      const { organisationId } = c.get('caller')
      const [libsql, ledger] = await Promise.all([probe(deps, organisationId), deps.ledgerStatus()])
      const { live, ...reachability } = libsql
      const status: Status = {
        version,
        host: deps.host,
        versions: {
          gantry: version,
          opencode: opencodeVersion,
          link: String(linkProtocols[0]),
        },
        libsql: reachability,
        outbox: {
          lagMs: ledger.oldestAt === null ? 0 : Math.max(0, deps.now() - ledger.oldestAt),
          pendingSessions: ledger.pendingSessions,
          deadLetters: await ownDeadLetters(deps, organisationId, ledger),
        },
        sessions: { live },
      }
      return c.json(status, 200)
    },
  )
}

async function probe(deps: AppDeps, organisationId: string) {
  const startedAt = deps.now()
  try {
    const live = await countOpenSessions(deps.db(), organisationId)
    return { reachable: true, latencyMs: deps.now() - startedAt, error: null, live }
  } catch {
    return {
      reachable: false,
      latencyMs: null,
      error: 'The database cannot be reached',
      live: null,
    }
  }
}

/** The ledger serves every organisation; a caller sees only what is its own. */
async function ownDeadLetters(
  deps: AppDeps,
  organisationId: string,
  { deadLetters }: LedgerStatus,
): Promise<LedgerStatus['deadLetters']> {
  if (deadLetters.length === 0) return []
  const sessionIds = [...new Set(deadLetters.map(({ sessionId }) => sessionId))]
  const rows = await deps
    .db()
    .all<{ id: string }>(
      'select id from sessions where organisation_id = ? and id in (select value from json_each(?))',
      organisationId,
      JSON.stringify(sessionIds),
    )
    .catch(() => [])
  // The organisation writes rows of its own, too.
  const own = new Set([organisationId, ...rows.map(({ id }) => id)])
  return deadLetters.filter(({ sessionId }) => own.has(sessionId))
}
