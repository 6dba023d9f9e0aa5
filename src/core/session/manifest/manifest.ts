import { AppError } from '../../../contract/error.ts'
import type { Manifest } from '../../../contract/manifest.ts'
import { parseModel } from '../../../contract/models.ts'
import { sandboxTools } from '../../../contract/tools.ts'
import type { Sql } from '../../ports.ts'
import { buildManifest } from './files.ts'
import { baseTree } from '../changes/diff.ts'
import { loadAutomationRun } from '../automation/automation.ts'
import { loadGeneration } from '../generations/generations.ts'
import { pinnedAgents } from '../pins/agents.ts'
import type { SessionPorts } from '../record/ports.ts'
import { loadAttemptTerms } from '../record/attempt-terms.ts'
import { givenSkillTexts } from '../skills/texts.ts'
import { memoriesText } from './memories.ts'
import { listUpstreams } from '../upstreams/upstreams.ts'
import { manifestPrompt } from './prompt.ts'
import type { SessionRecord } from '../record/record.ts'

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
  const manifest = await buildManifest(
    {
      sessionId: session.id,
      layout,
      prompt: manifestPrompt(session, layout, run?.id ?? null).text,
      model: parseModel(session.model, models),
      models,
      effort: session.reasoningEffort,
      agents: pinnedAgents(ports.sql),
      trustProjectConfig: session.trustProjectConfig,
      enclosure: ports.config.enclosure,
      privateHosts: ports.config.privateHosts,
      upstreams: listUpstreams(ports.sql),
      nonce: session.markerNonce,
      mode: session.mode,
      equipment: session.equipment,
      skills: givenSkillTexts(ports.sql),
      memories: memoriesText(ports.sql),
      tools: [...ports.tools.map((tool) => tool.definition), ...sandboxTools],
    },
    ports.crypto,
  )
  const base = continuedBase(ports.sql, session.generation)
  const fixtures = loadAttemptTerms(ports.sql)?.files ?? []
  return {
    ...manifest,
    ...(fixtures.length > 0 && { fixtures: [...fixtures] }),
    ...(base !== null && { baseTree: base }),
  }
}

/** Only with the session's own files: what a new clone brings may differ from the old one without any work. */
function continuedBase(sql: Sql, generation: number): string | null {
  const snapshotId = loadGeneration(sql, generation)?.snapshotId ?? null
  const isOwn = sql.all('select 1 from snapshots where id = ?', snapshotId).length > 0
  return isOwn ? baseTree(sql) : null
}
