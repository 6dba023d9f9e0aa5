import { z } from 'zod'

/** A longer list helps nobody. */
const maxKnown = 40

/** Of an object that has a field too many it is said which ones it may have: whoever mistyped a name finds it there. */
export function tellKnownFields(): void {
  z.config({
    customError: ({ code, inst }) =>
      code === 'unrecognized_keys'
        ? unknownField(inst?.['_zod'].def as { shape?: object } | undefined)
        : undefined,
  })
}

function unknownField(def: { shape?: object } | undefined): string {
  const known = Object.keys(def?.shape ?? {})
  if (known.length === 0) return 'Unknown field; there are none'
  const more = known.length > maxKnown ? ', …' : ''
  return `Unknown field; known are ${known.slice(0, maxKnown).join(', ')}${more}`
}
