import type { Session } from '../../../contract/session.ts'

/** Why OpenCode could not be started or reached, and what to do about it. */
export function providerStartError(session: Session): string {
  const { state, reason, provider } = session.sandbox
  const why = (reason ?? `the sandbox is ${state}`).replace(/\.$/, '')
  const missing = /spawn (\S+) ENOENT|(\S*opencode\S*): (?:command )?not found/i.exec(why)
  if (missing)
    return `OpenCode executable '${missing[1] ?? missing[2]}' was not found. Update the image of the sandbox or add it to PATH.`
  const look = `Look at the sandbox provider "${provider}" (POST /v1/providers/${provider}/check).`
  const [, code] = /exit(?:ed with)? code (\d+)/i.exec(why) ?? []
  if (code !== undefined) return `OpenCode exited with code ${code}: ${why}. ${look}`
  return `OpenCode could not be started: ${why}. ${look}`
}

export const providerTimeoutError = (what: string, seconds: number): string =>
  `${what} timed out after ${seconds}s`

export const providerBlockedError = (title: string, reason: string, target: string): string =>
  `OpenCode permission was blocked: ${title} (${reason}). Set permissions of target '${target}' to once or always to allow it.`
