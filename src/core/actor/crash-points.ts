/**
 * Every place at which a crash test may stop the process: between a commit and what follows from it, or around a word
 * with the outside. A test that never reaches one of them fails.
 */
export const crashPoints = [
  'session.created',
  'prompt.stored',
  'call.begun',
  'call.ran',
  'call.failed',
  'call.settled',
  'command.added',
  'command.finished',
  'link.greeted',
  'link.before-store',
  'link.after-store',
  'ask.stored',
  'operation.decided',
  'attempt.reserved',
  'outbox.before-send',
  'outbox.after-send',
  'ledger.before-write',
  'ledger.after-write',
  'deadline.taken',
  'sandbox.created',
  'sandbox.stopped',
  'erase.drained',
] as const
export type CrashPointName = (typeof crashPoints)[number]

/** Absent outside crash tests. */
export type CrashPoint = (name: CrashPointName) => Promise<void>
