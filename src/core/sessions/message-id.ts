/**
 * A message id in OpenCode's own form. OpenCode compares message ids to find the newest one, so ours carry the time in
 * the same twelve hexadecimal digits (milliseconds times 4096, the low 48 bits); everybody else treats them as opaque.
 */
export function opencodeMessageId(now: number, suffix: string): string {
  const time = (BigInt(now) * 4096n) & 0xffff_ffff_ffffn
  return `msg_${time.toString(16).padStart(12, '0')}${suffix.slice(0, 14).padEnd(14, '0')}`
}
