import type { EnvSubmitted } from '../../contract/env.ts'
import type { SessionDiff } from '../../contract/session.ts'
import { loadDiff, saveDiff } from './artifacts.ts'
import type { CommandDesk } from './command-desk.ts'
import { forgetCommand } from './commands.ts'
import { mustBeOpen } from './doors.ts'
import { submitEnvValues } from './env.ts'
import type { Kernel } from './kernel.ts'
import type { SessionRecord } from './record.ts'
import type { SealedValue } from './secrets.ts'

/** How long a caller waits for the sandbox before it gets the answer without it. */
const patienceMs = 10_000

/** From the sandbox if it can be asked now, else as it was at the end of the last turn. */
export async function currentDiff(
  kernel: Kernel,
  commands: CommandDesk,
  session: SessionRecord,
): Promise<SessionDiff> {
  const { host, crypto, sql } = kernel.ports
  if (session.sandboxState !== 'ready' || !host.agentConnected()) return loadDiff(sql)
  const commandId = `diff_${crypto.random(20)}`
  const asked = commands.ask('diff', commandId, {}).catch(() => null)
  const report = await Promise.race([asked, host.sleep(patienceMs).then(() => null)])
  kernel.commit((sql, now) => {
    forgetCommand(sql, commandId)
    if (report) saveDiff(sql, now, report)
  })
  return { ...loadDiff(sql), live: report !== null }
}

/** Stored first: if the sandbox cannot be reached now, the command waits for it. */
export async function submitEnv(
  kernel: Kernel,
  commands: CommandDesk,
  session: SessionRecord,
  values: SealedValue[],
): Promise<EnvSubmitted['sandbox']> {
  mustBeOpen(session)
  const { host, crypto } = kernel.ports
  kernel.commit((sql, now) => submitEnvValues(sql, now, values))
  kernel.secretsChanged()
  if (session.provider === 'none') return 'none'
  const written = commands.ask('env', `env_${crypto.random(20)}`, {}).then(
    () => 'written' as const,
    () => 'pending' as const,
  )
  return Promise.race([written, host.sleep(patienceMs).then(() => 'pending' as const)])
}
