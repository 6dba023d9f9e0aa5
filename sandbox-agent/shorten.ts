import { maxEventBytes } from '../src/contract/agent-events.ts'

/** Room for the event's own fields around its data. */
const envelopeBytes = 2048

const byteLength = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '')

/** The same value, with long texts cut until it fits. */
export function shorten<T>(
  value: T,
  maxBytes: number = maxEventBytes - envelopeBytes,
): { value: T; shortened: boolean } {
  if (byteLength(value) <= maxBytes) return { value, shortened: false }
  for (
    let maxLength = Math.floor(maxBytes / 2);
    maxLength >= 32;
    maxLength = Math.floor(maxLength / 2)
  ) {
    const cut = cutTexts(value, maxLength)
    if (byteLength(cut) <= maxBytes) return { value: cut as T, shortened: true }
  }
  // Not long texts but very many: say so instead of half of it.
  return { value: dropLargest(value, maxBytes) as T, shortened: true }
}

function cutTexts(value: unknown, maxLength: number): unknown {
  if (typeof value === 'string') return cutText(value, maxLength)
  if (Array.isArray(value)) return value.map((item) => cutTexts(item, maxLength))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, cutTexts(item, maxLength)]),
  )
}

function cutText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  return `${text.slice(0, maxLength).toWellFormed()}\n[… ${text.length - maxLength} more characters]`
}

function dropLargest(value: unknown, maxBytes: number): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return null
  const fields = Object.entries(cutTexts(value, 200) as object)
  return Object.fromEntries(
    fields.map(([key, item]) => [
      key,
      byteLength(item) > maxBytes / (fields.length + 1) ? emptyLike(item) : item,
    ]),
  )
}

const emptyLike = (item: unknown) =>
  Array.isArray(item) ? [] : typeof item === 'string' ? '' : { omitted: 'too large' }
