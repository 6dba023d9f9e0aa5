import { z } from 'zod'

/** What the admins of an organisation decide for all of it. */
export const Settings = z.strictObject({
  newKeysCount: z
    .boolean()
    .describe(
      'Whether a key that one member makes for another counts as that member’s at once; false: for a day it counts as its maker’s',
    ),
})
export type Settings = z.infer<typeof Settings>
