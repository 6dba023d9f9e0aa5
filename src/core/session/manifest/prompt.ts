import type { Layout } from '../../../contract/manifest.ts'
import { type SelectedPrompt, selectPrompt } from '../../../contract/prompts.ts'
import type { SessionRecord } from '../record/record.ts'

/** What the model is told in this sandbox. */
export function manifestPrompt(
  session: SessionRecord,
  layout: Pick<Layout, 'workspace' | 'envFile'>,
  automationRunId: string | null,
): SelectedPrompt {
  return selectPrompt({
    mode: session.mode,
    repositoryName: session.repositoryUrl === null ? null : repositoryName(session.repositoryUrl),
    layout,
    automationRun: automationRunId === null ? undefined : { runId: automationRunId },
    systemPrompt: session.systemPrompt,
    systemPromptMode: session.systemPromptMode,
  })
}

/** Who wrote it, and what is worth a warning: neither depends on the sandbox. */
export function manifestPromptOrigin(
  session: SessionRecord,
  automationRunId: string | null,
): Pick<SelectedPrompt, 'source' | 'warnings'> {
  const { source, warnings } = manifestPrompt(
    session,
    { workspace: '', envFile: '' },
    automationRunId,
  )
  return { source, warnings }
}

function repositoryName(url: string): string {
  return (
    url
      .replace(/\/+$/, '')
      .replace(/\.git$/, '')
      .split('/')
      .at(-1) || url
  )
}
