import { z } from 'zod'

/**
 * What an evaluator must know beside the case and the response. Core says what it needs (`requestsOf`), whoever runs the
 * attempt finds it out in the attempt's own sandbox, session or by the model proxy, and core scores the answers. The id is
 * the evaluator's name; of a part of a composite it is `composite/part`. In a name "/" and "%" are written as in an address.
 */

const id = z.string()
export const EvaluatorRequest = z.discriminatedUnion('kind', [
  z.object({
    id,
    kind: z.literal('files'),
    paths: z.array(z.string()),
    texts: z.boolean().describe('Whether they are looked for, or only the files'),
  }),
  z.object({
    id,
    kind: z.literal('command'),
    command: z
      .string()
      .describe('Judged by the policy of the session, as a question of the gate is'),
    cwd: z.string().optional(),
    timeoutSeconds: z.number(),
  }),
  z.object({
    id,
    kind: z.literal('code_judge'),
    command: z.string().describe('In a sandbox without network'),
    input: z.string().describe('JSON for its standard input'),
    timeoutSeconds: z.number(),
  }),
  z.object({
    id,
    kind: z.literal('model'),
    target: z.string().optional().describe("Default: the target's judge"),
    system: z.string(),
    prompt: z.string(),
  }),
  z.object({ id, kind: z.literal('changes') }),
  z.object({ id, kind: z.literal('policy') }),
  z.object({ id, kind: z.literal('evidence') }),
])
export type EvaluatorRequest = z.infer<typeof EvaluatorRequest>

const CommandEnd = z.object({
  exitCode: z.number().int().nullable().describe('null: it was ended'),
  timedOut: z.boolean().default(false),
  stdout: z.string(),
  stderr: z.string(),
})
const Refusal = z.object({ tool: z.string(), reason: z.string() })

/** One per request; `failed` says that it could not be found out and why, and scores 0. */
export const EvaluatorAnswer = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('failed'), message: z.string() }),
  z.object({
    kind: z.literal('files'),
    files: z.array(
      z.object({
        path: z.string(),
        exists: z.boolean(),
        text: z.string().nullable().describe('null: none, too large, or no text'),
      }),
    ),
  }),
  CommandEnd.extend({ kind: z.literal('command') }),
  CommandEnd.extend({ kind: z.literal('code_judge') }),
  z.object({ kind: z.literal('model'), text: z.string() }),
  z.object({ kind: z.literal('changes'), paths: z.array(z.string()) }),
  z.object({
    kind: z.literal('policy'),
    denied: z.array(Refusal),
    bypassed: z.array(Refusal).describe('Done without the gate having allowed it'),
  }),
  z.object({
    kind: z.literal('evidence'),
    changes: z.array(
      z.object({ path: z.string(), proven: z.boolean(), reason: z.string().optional() }),
    ),
  }),
])
export type EvaluatorAnswer = z.infer<typeof EvaluatorAnswer>
