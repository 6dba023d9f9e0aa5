import type { Route } from '../kit/route.ts'
import { abilityRoutes } from './abilities.ts'
import { agentRoutes } from './agents.ts'
import { approvalRoutes } from './approvals.ts'
import { artifactRoutes } from './artifacts.ts'
import { auditRoutes } from './audit.ts'
import { budgetRoutes } from './budgets.ts'
import { changeRoutes } from './changes.ts'
import { configurationRoutes } from './configurations.ts'
import { deadLetterRoutes } from './dead-letters.ts'
import { envRoutes } from './env.ts'
import { evalResultRoutes } from './eval-results.ts'
import { evalRunRoutes } from './eval-runs.ts'
import { eventRoutes } from './events.ts'
import { evalRoutes } from './evals.ts'
import { executionRoutes } from './executions.ts'
import { evidenceRoutes } from './evidence.ts'
import { exportRoutes } from './exports.ts'
import { keyRoutes } from './keys.ts'
import { killSwitchRoutes } from './kill-switch.ts'
import { limitRoutes } from './limits.ts'
import { memberRoutes } from './members.ts'
import { memoryRoutes } from './memories.ts'
import { modelRoutes } from './models.ts'
import { offerRoutes } from './offers.ts'
import { operationRoutes } from './operations.ts'
import { phaseRoutes } from './phases.ts'
import { policyRoutes } from './policies.ts'
import { promotionRoutes } from './promotions.ts'
import { profileRoutes } from './profiles.ts'
import { providerRoutes } from './providers.ts'
import { runChangeRoutes } from './run-changes.ts'
import { runRoutes } from './runs.ts'
import { sandboxRoutes } from './sandbox.ts'
import { secretRoutes } from './secrets.ts'
import { sessionRoutes } from './sessions.ts'
import { settingsRoutes } from './settings.ts'
import { skillProposalRoutes } from './skill-proposals.ts'
import { skillRoutes } from './skills.ts'
import { statusRoutes } from './status.ts'
import { toolRoutes } from './tools.ts'
import { turnRoutes } from './turns.ts'
import { upstreamRoutes } from './upstreams.ts'
import { usageRoutes } from './usage.ts'
import { webhookRoutes } from './webhooks.ts'

/** Of every noun, in the order of the document. The first that fits a request answers it. */
export const routes: Route[] = [
  ...[...sessionRoutes, ...turnRoutes, ...changeRoutes, ...eventRoutes, ...artifactRoutes],
  ...[...runRoutes, ...runChangeRoutes, ...operationRoutes, ...approvalRoutes, ...policyRoutes],
  ...[...abilityRoutes, ...memoryRoutes, ...phaseRoutes, ...skillRoutes, ...skillProposalRoutes],
  ...[
    ...executionRoutes,
    ...offerRoutes,
    ...evidenceRoutes,
    ...exportRoutes,
    ...evalRoutes,
    ...evalRunRoutes,
    ...evalResultRoutes,
    ...promotionRoutes,
  ],
  ...[...budgetRoutes, ...usageRoutes, ...limitRoutes, ...killSwitchRoutes],
  ...[...configurationRoutes, ...secretRoutes, ...envRoutes, ...providerRoutes, ...modelRoutes],
  ...[...agentRoutes, ...profileRoutes],
  ...[
    ...memberRoutes,
    ...auditRoutes,
    ...keyRoutes,
    ...settingsRoutes,
    ...webhookRoutes,
    ...statusRoutes,
    ...deadLetterRoutes,
  ],
  ...[...sandboxRoutes, ...upstreamRoutes, ...toolRoutes],
]
