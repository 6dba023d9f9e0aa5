import type { z } from 'zod'
import type { CollectedFile } from '../../../../contract/artifact.ts'
import type { CommandBody, CommandKind, CommandResult } from '../../../../contract/link.ts'
import type { Execution, ExecutionCreate, ExecutionRecord } from '../../../../contract/execution.ts'
import type { OfferedAbility } from '../../../../contract/offered-ability.ts'
import type { SessionPin } from '../../../../contract/pin.ts'
import type { ToolDefinition, ToolResult } from '../../../../contract/tool.ts'
import type { RegistryScope } from '../../../../contract/registry-scope.ts'
import type { Mode } from '../../../../contract/mode.ts'
import type { Blobs, Db, SandboxProvider } from '../../../ports.ts'
import type { KnownSecret } from '../../../redaction/redaction.ts'
import type { CompletionDecision, IncomingCompletion } from './completion.ts'

export interface CallContext {
  sessionId: string
  organisationId: string
  /** The same for every attempt of one call: effects outside carry it, so that they happen once. */
  operationId: string
  now(): number
  db(): Db
  blobs(): Blobs
  /** Asks the sandbox. One id per operation and kind, so that a repeated attempt finds the first result. */
  command<K extends CommandKind>(kind: K, body: CommandBody<K>): Promise<CommandResult<K>>
  storeArtifacts(files: CollectedFile[]): void

  sha256(text: string): Promise<string>
  /** Those that the session began with. */
  skills(): readonly SessionPin[]

  mode: Mode
  project: string
  abilities: ModelAbilities
  /** Whose memories it reaches. */
  memory: { scopes: readonly RegistryScope[]; memberId: string }
  configurationId: string | null
  generation: number
  provider(): Promise<SandboxProvider | null>
  /** Written from secrets, so they must not leave in a snapshot: paths in the workspace. */
  generatedFiles: readonly string[]
  /** Values that must not leave in a snapshot. */
  knownSecrets(): Promise<KnownSecret[]>
  /** Before the provider is asked: what is taken and never answered can be deleted later. */
  orderSnapshot(id: string): void
  storeSnapshot(snapshot: {
    id: string
    target: 'configuration' | 'session'
    bytes: number
    message: string
  }): void
  /** Decides and records in one transaction. */
  completeRun(incoming: IncomingCompletion): CompletionDecision
}

/** What the model may do about abilities. */
export interface ModelAbilities {
  offered(): { items: OfferedAbility[]; agent: string }
  /** Once per operation: begun again, it is the same execution. */
  run(create: ExecutionCreate): Promise<Execution>
  /** Of the one that runs, or of one that is named. */
  status(executionId: string | null): ExecutionRecord | null
  /** With an approval it goes on until a person agrees. Null: none runs. */
  cancel(
    executionId: string | null,
    reason: string,
  ): { execution: Execution; approvalId: string | null } | null
}

/**
 * A tool that runs in the control plane. It answers, or throws: an AppError marked retryable means that nothing was done
 * and the call stays unsettled; another AppError is a refusal and is settled; anything else is a bug.
 */
export interface GatewayTool<A extends z.ZodType = z.ZodType> {
  definition: ToolDefinition<A>
  /** Whether it may run again after a crash, because its effects carry the operation id. */
  repeatable: boolean
  /** Without a promise if there is nothing to wait for: then begin and settle are one commit. */
  run(args: z.infer<A>, call: CallContext): ToolResult | Promise<ToolResult>
  /** What a closed session still answers to arguments with a new id; null: nothing, it is refused. */
  late?(args: z.infer<A>, call: LateContext): ToolResult | null
}

interface LateContext {
  sessionId: string
  /** Decides without recording. */
  decideRun(incoming: IncomingCompletion): CompletionDecision
}

/** Keeps the argument type where a tool is written, and forgets it where tools are listed. */
export function gatewayTool<A extends z.ZodType>(tool: GatewayTool<A>): GatewayTool {
  return tool
}
