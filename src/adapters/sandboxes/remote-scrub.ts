import { z } from 'zod'
import { AppError, errorCodeOf } from '../../contract/error.ts'
import type { SnapshotInput } from '../../core/ports.ts'
import { createRedactor } from '../../core/redaction/redaction.ts'
import { formsOf } from '../../core/redaction/forms.ts'
import { remoteImage, remoteLayout } from './remote-layout.ts'

/**
 * Everywhere on the disk that the sandbox's user can write beside its home and its workspace, and what is the agent's.
 * What is in memory only, as /dev/shm, is in no snapshot.
 */
const emptied = [
  ...['/tmp', '/var/tmp', '/var/crash', '/var/mail', '/var/spool/cron/crontabs'],
  ...[remoteImage.stateDir, remoteLayout.configDir],
]
const searchMs = 50_000
/** All of it. */
export const scrubMs = 80_000

/** What prepares a copy of a sandbox, in which it runs as root, for a snapshot. Its input holds secrets. */
export function remoteScrubCommand(input: SnapshotInput): {
  args: [string, string]
  input: string
} {
  const { home, workspace } = remoteLayout
  const { node, scrub, agent, uid } = remoteImage
  const order = {
    ...{ home, workspace, folders: emptied, uid, agent, searchMs },
    secrets: [...input.secrets, ...tokensOf(input.sessionId)],
    generatedFiles: input.generatedFiles ?? [],
  }
  return { args: [node, scrub], input: JSON.stringify(order) }
}

/** Whatever token the session has: its id is in all of them, and nowhere else in that spelling. */
const tokensOf = (sessionId: string) =>
  formsOf(sessionId).wrapped.map((value) => ({ name: 'session token', value }))

interface ScrubResult {
  exitCode: number
  stdout: string
  stderr: string
}

const Scrubbed = z.union([
  z.object({ bytes: z.number() }),
  z.object({ hit: z.object({ name: z.string(), file: z.string() }) }),
  z.object({ late: z.literal(true) }),
  z.object({ code: z.string(), message: z.string() }),
])
type Scrubbed = z.infer<typeof Scrubbed>

/** The size of what is left; refuses if it must not become a snapshot. */
export function remoteScrubbedBytes(result: ScrubResult, { secrets }: SnapshotInput): number {
  const redactor = createRedactor(secrets)
  const redact = (text: string) => redactor.redactText(text)
  if (result.exitCode !== 0) throw failure(redact(result.stderr).slice(0, 300))
  return bytesOf(parseScrubbed(result.stdout), redact)
}

function parseScrubbed(stdout: string): Scrubbed {
  try {
    return Scrubbed.parse(JSON.parse(stdout))
  } catch {
    throw failure('the image does not answer as expected')
  }
}

function bytesOf(answer: Scrubbed, redact: (text: string) => string): number {
  if ('bytes' in answer) return answer.bytes
  if ('hit' in answer) {
    const { name, file } = answer.hit
    const message = `Secret "${name}" is in the file "${redact(file)}": the snapshot is refused. Move the value out of it, then try again`
    throw new AppError('unprocessable', message)
  }
  if ('late' in answer) {
    const message = `Cannot take the snapshot: searching it for secrets takes more than ${searchMs / 1000} s. Remove what is not needed`
    throw new AppError('unprocessable', message)
  }
  const code = errorCodeOf(answer)
  if (code === undefined || code === 'internal') throw failure(redact(answer.message))
  throw new AppError(code, `Cannot take the snapshot: ${redact(answer.message)}`)
}

const failure = (why: string) =>
  new AppError('sandbox_unavailable', `Cannot take the snapshot: ${why}`)
