import { hashText } from '../../hash.ts'

const safe = (text: string): string => text.replaceAll(/[^A-Za-z0-9._-]/g, '_').slice(0, 80)

/** `<time>_<target>_<case>[_attempt-N]_<8 hex>.log`: always the same for one try of one attempt. */
export function providerLogName(of: {
  runId: string
  n: number
  attempt: number
  startedAt: number
  target: string
  caseId: string
}): string {
  const time = new Date(of.startedAt).toISOString().replaceAll(/[:.]/g, '-')
  const again = of.attempt > 0 ? `_attempt-${of.attempt + 1}` : ''
  const hex = hashText(`${of.runId} ${of.n} ${of.attempt}`).slice(0, 8)
  return `${time}_${safe(of.target)}_${safe(of.caseId)}${again}_${hex}.log`
}
