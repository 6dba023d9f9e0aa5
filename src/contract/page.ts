import { z } from 'zod'

/** Cursors are opaque to callers: pass back what the last page gave. */
export const PageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(200).optional(),
})
export type PageQuery = z.infer<typeof PageQuery>

export const page = <T extends z.ZodType>(item: T) =>
  z.object({ items: z.array(item), nextCursor: z.string().nullable() })
