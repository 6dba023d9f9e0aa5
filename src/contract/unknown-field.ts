import { z } from 'zod'

/** A longer list helps nobody. */
const maxKnown = 40

/** Of an object that has a field too many it is said which ones it may have: whoever mistyped a name finds it there. */
z.config({
  customError: ({ code, inst }) => {
    if (code !== 'unrecognized_keys') return undefined
    const shape = (inst?._zod.def as { shape?: object } | undefined)?.shape
    const known = Object.keys(shape ?? {})
    const more = known.length > maxKnown ? ', …' : ''
    return known.length === 0
      ? 'Unknown field; there are none'
      : `Unknown field; known are ${known.slice(0, maxKnown).join(', ')}${more}`
  },
})
