import { z } from 'zod'

/** Cursors are opaque to callers: pass back what the last page gave. */
export const PageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(200).optional(),
})
/** Of lists that once came whole: who asks for no limit gets as much as there may be. */
export const LongPageQuery = PageQuery.extend({
  limit: z.coerce.number().int().min(1).max(200).default(200),
})
export type PageQuery = z.infer<typeof PageQuery>

export const page = <T extends z.ZodType>(item: T) =>
  z.object({ items: z.array(item), nextCursor: z.string().nullable() })
