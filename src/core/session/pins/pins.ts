// What a session began with: revisions of registered agents, skills, memory and profiles, with their content. Saved once,
// in the commit that creates the session, and never changed: every manifest of the session is made of it, so that a
// change in a registry is for later sessions, and no sandbox start waits for libSQL.

import { AppError } from '../../../contract/error.ts'
import type { PinKind, SessionPin } from '../../../contract/pin.ts'
import type { Crypto, Sql } from '../../ports.ts'

/** With its content, which is text whose meaning the kind knows. */
export interface Pin extends SessionPin {
  content: string
}

export async function pinFor(
  crypto: Pick<Crypto, 'sha256'>,
  given: Omit<Pin, 'sha256'>,
): Promise<Pin> {
  return { ...given, sha256: await crypto.sha256(given.content) }
}

export const withoutContent = ({ kind, name, id, revision, sha256 }: Pin): SessionPin => ({
  ...{ kind, name, id, revision, sha256 },
})

/** All of them travel in one message, and are in each manifest. */
const maxPins = 500
const maxPinnedCharacters = 2_000_000

/** Refuses what no sandbox could be given. */
export function mustBeFewPins(pins: readonly Pin[]): void {
  const characters = pins.reduce((sum, { content }) => sum + content.length, 0)
  if (pins.length <= maxPins && characters <= maxPinnedCharacters) return
  const found = `${pins.length} rows with ${characters} characters`
  const most = `at most ${maxPins} rows with ${maxPinnedCharacters} characters together`
  throw new AppError('unprocessable', `Cannot begin with ${found} of the registries: ${most}`)
}

/** Inside the commit that creates the session. */
export function savePins(sql: Sql, now: number, pins: readonly Pin[]): void {
  for (const { kind, name, id, revision, sha256, content } of pins) {
    sql.run(
      `insert into pins (kind, id, name, revision, sha256, content, pinned_at) values (?, ?, ?, ?, ?, ?, ?)`,
      ...[kind, id, name, revision, sha256, content, now],
    )
  }
}

/** In the order in which they were saved. */
export function pinsOf(sql: Sql, kind: PinKind): Pin[] {
  return sql.all<Pin>(
    'select kind, name, id, revision, sha256, content from pins where kind = ? order by n',
    kind,
  )
}

/** All, without their content: for whoever looks at the session. */
export function listPins(sql: Sql): SessionPin[] {
  return sql.all<SessionPin>('select kind, name, id, revision, sha256 from pins order by n')
}
