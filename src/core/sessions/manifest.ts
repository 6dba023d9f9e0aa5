import { AppError } from '../../contract/error.ts'
import type { Manifest } from '../../contract/manifest.ts'
import { parseModel } from '../../contract/models.ts'
import { requestEnvVariablesTool } from '../../contract/tools.ts'
import { buildManifest } from '../sandboxes/manifest.ts'
import { loadAutomationRun } from './automation.ts'
import type { SessionPorts } from './ports.ts'
import { sessionPrompt } from './prompt.ts'
import type { SessionRecord } from './record.ts'

/** What this session's sandbox is to contain. */
export async function sessionManifest(
  ports: SessionPorts,
  session: SessionRecord,
): Promise<Manifest> {
  const provider = await ports.provider(session.provider, session.organisationId)
  if (!provider) throw new AppError('wrong_state', 'This session has no sandbox')
  const layout = provider.layout(session.id, session.generation)
  const run = loadAutomationRun(ports.sql)
  const { models } = ports.config
  return buildManifest(
    {
      sessionId: session.id,
      layout,
      prompt: sessionPrompt(session, layout, run?.id ?? null).text,
      model: parseModel(session.model, models),
      models,
      effort: session.reasoningEffort,
      trustProjectConfig: session.trustProjectConfig,
      nonce: session.markerNonce,
      mode: session.mode,
      tools: [...ports.tools.map((tool) => tool.definition), requestEnvVariablesTool],
    },
    ports.crypto,
  )
}
