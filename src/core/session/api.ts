import type { ApprovalsApi } from './approvals/approvals.ts'
import type { ArtifactsApi } from './artifacts/artifacts.ts'
import type { BudgetApi } from './budget/budget.ts'
import type { CallsApi } from './calls/calls.ts'
import type { ChangesApi } from './changes/changes.ts'
import type { EnvApi } from './env/env.ts'
import type { GateApi } from './gate/gate.ts'
import type { SandboxApi } from './sandbox/sandbox.ts'
import type { AgentApi } from './link/agent.ts'
import type { LogApi } from './log/log.ts'
import type { ModelsApi } from './models/models.ts'
import type { OperationsApi } from './operations/operations.ts'
import type { LettersApi } from './outbox/letters.ts'
import type { RunsApi } from './runs/runs.ts'
import type { SelfApi } from './self.ts'
import type { TurnsApi } from './turns/turns.ts'
import type { WarmApi } from './warm/warm.ts'

/**
 * What callers may ask of one session, by room. Both hosts offer exactly this; refusals are thrown as AppError. Every
 * method may be called again with the same arguments.
 */
export interface SessionApi {
  self: SelfApi
  sandbox: SandboxApi
  turns: TurnsApi
  runs: RunsApi
  approvals: ApprovalsApi
  operations: OperationsApi
  gate: GateApi
  budget: BudgetApi
  calls: CallsApi
  artifacts: ArtifactsApi
  changes: ChangesApi
  env: EnvApi
  log: LogApi
  letters: LettersApi
  warm: WarmApi
  models: ModelsApi
  agent: AgentApi
}
