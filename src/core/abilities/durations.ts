import type { Duration } from '../../contract/ability.ts'

const unitMs: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }
const maxMs = 86_400_000

/** 2m30s, 500ms, 1h, or a plain number of milliseconds. Null: it is none, or longer than a day. */
export function parseDuration(given: Duration): number | null {
  if (typeof given === 'number') return given
  if (/^[0-9]{1,8}$/.test(given)) return inRange(Number(given))
  if (!/^([0-9]{1,8}(ms|s|m|h))+$/.test(given)) return null
  const parts = [...given.matchAll(/([0-9]+)(ms|s|m|h)/g)]
  return inRange(
    parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (unitMs[unit] ?? 0), 0),
  )
}

const inRange = (ms: number): number | null => (ms >= 1 && ms <= maxMs ? ms : null)
