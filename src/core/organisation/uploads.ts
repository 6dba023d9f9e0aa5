import type { Firewall } from '../../contract/limits.ts'
import type { Sql } from '../ports.ts'
import type { RoomOf } from '../actor/room.ts'
import type { UploadsApi } from './record/api.ts'
import type { OrganisationKernel } from './record/kernel.ts'

/**
 * How many bytes of uploads and artifacts each session holds. It promises that no session and no organisation holds more
 * than the deployment allows, because a session asks before anything is stored, with all that it would hold then: asking
 * again is harmless. What two sessions share counts for each of them. Sessions call it, also when they hold less.
 */
export function createUploads(kernel: OrganisationKernel): RoomOf<UploadsApi> {
  const { firewall } = kernel.ports
  return {
    api: {
      hold: async (sessionId, bytes) =>
        kernel.commit((sql) => ({ refusal: hold(sql, firewall, sessionId, bytes) })),
    },
  }
}

const mebibyte = 1024 * 1024

function hold(sql: Sql, firewall: Firewall, sessionId: string, bytes: number): string | null {
  const [own] = sql.all<{ bytes: number }>(
    'select bytes from uploads where session_id = ?',
    sessionId,
  )
  const held = own?.bytes ?? 0
  const refusal = bytes > held ? whyNot(sql, firewall, bytes, held) : null
  if (refusal !== null) return refusal
  if (bytes === 0) sql.run('delete from uploads where session_id = ?', sessionId)
  else sql.run('insert or replace into uploads values (?, ?)', sessionId, bytes)
  return null
}

function whyNot(sql: Sql, firewall: Firewall, bytes: number, held: number): string | null {
  const { uploadMegabytesPerSession: perSession, uploadMegabytes: inAll } = firewall
  if (bytes > perSession * mebibyte)
    return refused(
      bytes - held,
      `the session holds ${sizeOf(held)}`,
      perSession,
      'uploadMegabytesPerSession',
    )
  const [sum] = sql.all<{ bytes: number | null }>('select sum(bytes) as bytes from uploads')
  const all = sum?.bytes ?? 0
  if (all - held + bytes > inAll * mebibyte)
    return refused(bytes - held, `the organisation holds ${sizeOf(all)}`, inAll, 'uploadMegabytes')
  return null
}

const sizeOf = (bytes: number) => `${(bytes / mebibyte).toFixed(1)} MiB`

const refused = (more: number, use: string, limit: number, name: string) =>
  `Cannot store ${sizeOf(more)} more: ${use} of uploads and artifacts, and ${limit} MiB are allowed (${name} in GANTRY_LIMITS). Delete sessions that are not needed any more`
