import { z } from 'zod'
import { GateDecision } from './ask.ts'
import { CollectedFile, Sha256 } from './artifact.ts'
import { type AgentEventKind, agentEventKinds } from './agent-events.ts'
import { AskId, AttemptId } from './ids.ts'
import { DiffReport } from './diff.ts'
import { EnclosureReport } from './enclosure.ts'
import { DiscardReport, Enforcement, ExecutionReport } from './operation.ts'
import { IsolationPlan, MergeReport, SentOperation } from './operation.ts'

/** Spoken by this release, newest first. An agent one version older works. 2 adds `alive`. */
export const linkProtocols = [2, 1] as const

/**
 * Everything the control plane asks of an agent. A command is redelivered until its result is acknowledged; the agent
 * remembers the ids that it has carried out, and each command may be carried out again without harm.
 */
export const commandKinds = {
  prompt: {
    body: z.object({
      turnId: z.string(),
      /** Looked up in OpenCode before it is sent: sending one id twice duplicates the user's text. */
      messageId: z.string(),
      text: z.string(),
      steer: z.boolean(),
      /** What the model must know first: that its sandbox is a new one, and what is lost. */
      notice: z.string().optional(),
      /** Of an eval run: OpenCode asks for permissions, and the gate answers. The file gets every event, as a line. */
      attempt: z.object({ logFile: z.string().nullable() }).optional(),
      /** OpenCode's agent that does it. Absent: the session's own. */
      agent: z.string().optional(),
    }),
    result: z.object({
      sent: z.boolean(),
      /** The agent will say `alive` while it has the turn. */
      beats: z.boolean().optional(),
      /** OpenCode's session. Absent: an agent that cannot collect evidence. */
      opencodeSessionId: z.string().max(200).optional(),
    }),
  },
  abort: {
    body: z.object({ turnId: z.string().nullable(), reason: z.string().optional() }),
    result: z.object({}),
  },
  collect: {
    body: z.object({
      operationId: z.string(),
      folder: z.string(),
      maxFiles: z.number().int(),
      maxFileBytes: z.number().int(),
      maxTotalBytes: z.number().int(),
    }),
    result: z.object({ files: z.array(CollectedFile) }),
  },
  diff: { body: z.object({}), result: DiffReport },
  /**
   * Reads what OpenCode has stored of a turn and posts it as a bundle under this collect's id. Nothing is decided, and of
   * the workspace as it is now nothing is read.
   */
  evidence: {
    body: z.object({
      collectId: z.string(),
      turnId: z.string(),
      /** The prompts of the turn, as they were sent to OpenCode. */
      messageIds: z.array(z.string()).min(1).max(1000),
      /** The last message that an earlier collect of this turn had. */
      after: z.string().nullable(),
      /** The last message that this one may have, of a turn that still runs; absent: all of an ended one. */
      until: z.string().max(200).optional(),
      /** Steps whose files may be read; none: the history alone. */
      maxWindows: z.number().int().min(0).max(10),
    }),
    result: z.object({
      bytes: z.number().int().min(0),
      /** The last message of the bundle; null: there is nothing after it, or, with `until`, nothing was there yet. */
      next: z.string().max(200).nullable(),
    }),
  },
  /** Fetch the env values and merge them into the sandbox's files. The values are not in the command. */
  env: { body: z.object({}), result: z.object({}) },
  /** Sends the folder of an ability of the workspace to the session, if it still has this hash. */
  ability: {
    body: z.object({ path: z.string(), hash: Sha256 }),
    result: z.object({}),
  },
  /** One attempt at an operation. Begun once, however often it is delivered: what was begun and not ended is `unknown`. */
  execute: {
    body: z.object({
      attemptId: AttemptId,
      operation: SentOperation,
      plan: IsolationPlan,
      /** Of a revert. An earlier agent refuses an operation with a field that it does not know, and reads over this. */
      executable: z.boolean().optional(),
    }),
    result: ExecutionReport,
  },
  /** Ends the attempt if it runs, and if it was not begun, for good. Its own result says how it ended. */
  cancel: { body: z.object({ attemptId: AttemptId }), result: z.object({}) },
  /** Brings the branch of an attempt into the workspace. What is merged already is merged. */
  merge: { body: z.object({ attemptId: AttemptId, branch: z.string() }), result: MergeReport },
  /** Drops the branch of an attempt. What is dropped already is dropped. */
  discard: { body: z.object({ attemptId: AttemptId, branch: z.string() }), result: DiscardReport },
  stop: { body: z.object({ reason: z.string() }), result: z.object({}) },
} as const
export type CommandKind = keyof typeof commandKinds
export type CommandBody<K extends CommandKind> = z.infer<(typeof commandKinds)[K]['body']>
export type CommandResult<K extends CommandKind> = z.infer<(typeof commandKinds)[K]['result']>

export const AgentEvent = z.object({
  /** Per generation, from 1, without gaps. */
  seq: z.number().int().positive(),
  at: z.number(),
  kind: z.enum(Object.keys(agentEventKinds) as [AgentEventKind, ...AgentEventKind[]]),
  data: z.record(z.string(), z.unknown()),
})
export type AgentEvent = z.infer<typeof AgentEvent>

/** Sandbox to control plane. */
export const UpMessage = z.discriminatedUnion('t', [
  z.object({
    t: z.literal('hello'),
    protocols: z.array(z.number().int()).min(1).max(20),
    agent: z.string().max(50),
    /** A random name of this agent process: a new one means that the agent restarted. */
    boot: z.string().max(50),
    /** Whether OpenCode is up and the gate's marker was seen. */
    ready: z.boolean(),
  }),
  /** OpenCode is up, the gate's plugin has proven itself. */
  z.object({
    t: z.literal('ready'),
    bootMs: z.number(),
    /** What this sandbox can hold a process to, as tried out at its start. Absent: an agent that cannot say. */
    enforces: z.array(Enforcement).max(20).optional(),
    /** What holds OpenCode and all it starts. Absent: an older agent, which counts as none. */
    enclosure: EnclosureReport.optional(),
  }),
  z.object({ t: z.literal('failed'), reason: z.string().max(4000) }),
  z.object({ t: z.literal('events'), items: z.array(AgentEvent).min(1).max(200) }),
  z.object({
    t: z.literal('result'),
    commandId: z.string().max(100),
    ok: z.boolean(),
    data: z.record(z.string(), z.unknown()).optional(),
    error: z.string().max(4000).optional(),
  }),
  z.object({
    t: z.literal('ask'),
    askId: AskId,
    tool: z.string().min(1).max(200),
    callId: z.string().max(200),
    opencodeSessionId: z.string().max(100),
    /** The turn in which it was asked. Absent: an older agent. */
    turnId: z.string().max(100).optional(),
    /** Who asks inside OpenCode; a sub-agent names its parent's too. Absent: not known, or an older agent. */
    agent: z.string().max(100).optional(),
    subagent: z.string().max(100).optional(),
    input: z.unknown(),
    /** The input is shown in part only: what cannot be read cannot be allowed by a rule. */
    shortened: z.boolean().optional(),
    /** Where the paths of the input really lead at this moment. */
    realPaths: z.array(z.string().max(4096)).max(200).optional(),
    inputHash: z.string().regex(/^[0-9a-f]{64}$/),
  }),
  z.object({ t: z.literal('renew') }),
  /** The agent has this turn: it waits for its place, or OpenCode works on it. Only where protocol 2 is spoken. */
  z.object({ t: z.literal('alive'), turnId: z.string().max(100) }),
])
export type UpMessage = z.infer<typeof UpMessage>

/** Control plane to sandbox. */
export const DownMessage = z.discriminatedUnion('t', [
  z.object({
    t: z.literal('welcome'),
    protocol: z.number().int(),
    /** The last event of this generation that is stored: the agent drops its spool up to here and sends what follows. */
    ackedSeq: z.number().int(),
  }),
  z.object({ t: z.literal('ack'), seq: z.number().int() }),
  z.object({
    t: z.literal('command'),
    id: z.string(),
    kind: z.enum(Object.keys(commandKinds) as [CommandKind, ...CommandKind[]]),
    body: z.record(z.string(), z.unknown()),
  }),
  z.object({ t: z.literal('resultAck'), commandId: z.string() }),
  z.object({ t: z.literal('answer'), askId: AskId, decision: GateDecision, reason: z.string() }),
  z.object({ t: z.literal('token'), token: z.string(), expiresAt: z.number() }),
])
export type DownMessage = z.infer<typeof DownMessage>

/** Close codes. After `fenced` and `refused` an agent stops for good; after anything else it connects again. */
export const linkClose = {
  fenced: 4403,
  refused: 4400,
  superseded: 4409,
  tooOld: 4426,
  renewed: 4401,
  broke: 4500,
} as const

/** Sent as text by the agent and answered without waking the session. */
export const linkPing = 'ping'
export const linkPong = 'pong'
export const maxLinkMessageBytes = 1024 * 1024
