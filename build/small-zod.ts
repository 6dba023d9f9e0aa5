import { en } from 'zod/locales'
import * as mini from 'zod/mini'
import { _default as withDefault } from 'zod/mini'

/**
 * What the contract uses of zod, for the agent's bundle: the same schemas, checks and messages out of zod's core, without
 * the weight of a `z` on which everything can be chained to everything. It knows only what the agent's files of the
 * contract use, and test/sandbox-agent/small-zod.test.ts compares it with the whole.
 */
export const z = {
  array: mini.array,
  boolean: mini.boolean,
  config: mini.config,
  discriminatedUnion: mini.discriminatedUnion,
  enum: mini.enum,
  literal: mini.literal,
  number: mini.number,
  object: mini.object,
  partialRecord: mini.partialRecord,
  record: mini.record,
  strictObject: mini.strictObject,
  string: mini.string,
  unknown: mini.unknown,
  url: mini.url,
}

type Params = { error: string }

const chain = {
  optional(this: mini.ZodMiniType) {
    return mini.optional(this)
  },
  nullable(this: mini.ZodMiniType) {
    return mini.nullable(this)
  },
  default(this: mini.ZodMiniType, value: unknown) {
    return withDefault(this, value)
  },
  /** For documents, which the agent does not write. */
  describe(this: mini.ZodMiniType) {
    return this
  },
  refine(this: mini.ZodMiniType, isRight: (value: unknown) => boolean, params: Params) {
    return this.check(mini.refine(isRight, params))
  },
  regex(this: mini.ZodMiniString, pattern: RegExp, params?: Params) {
    return this.check(mini.regex(pattern, params))
  },
  int(this: mini.ZodMiniNumber) {
    return this.check(mini.int())
  },
  positive(this: mini.ZodMiniNumber) {
    return this.check(mini.positive())
  },
  min(this: mini.ZodMiniType<never>, limit: number) {
    return this.check(this.type === 'number' ? mini.minimum(limit) : mini.minLength(limit))
  },
  max(this: mini.ZodMiniType<never>, limit: number) {
    return this.check(this.type === 'number' ? mini.maximum(limit) : mini.maxLength(limit))
  },
  pick(this: mini.ZodMiniObject, fields: Record<string, true>) {
    return mini.pick(this, fields)
  },
  extend(this: mini.ZodMiniObject, fields: Record<string, mini.ZodMiniType>) {
    return mini.extend(this, fields)
  },
}

// zod gives what it finds here to every schema that it makes.
Object.assign(mini.ZodMiniType.prototype, chain)
mini.config(en())
