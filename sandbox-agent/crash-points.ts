/**
 * Where a crash test may stop the agent. At each point the agent sends one request to the test, and the test kills the
 * agent before it answers.
 */
export const crashPoints = [
  'boot.read',
  'manifest.fetched',
  'manifest.applied',
  'opencode.spawned',
  'ready.before',
  'spool.before-append',
  'spool.after-append',
  'ack.before',
  'command.received',
  'command.executed',
  'command.recorded',
  'evidence.collected',
  'execute.begun',
  'execute.done',
  'prompt.before-send',
  'prompt.after-send',
  'ask.received',
  'answer.received',
  'turn.before-end',
  'turn.after-end',
  'upstream.before-try',
  'upstream.answered',
] as const
export type CrashPoint = (typeof crashPoints)[number]

const url = process.env['GANTRY_CRASH_URL']

export async function crashPoint(name: CrashPoint): Promise<void> {
  if (url === undefined || url === '') return
  await fetch(`${url}/agent.${name}`).catch(() => undefined)
}
