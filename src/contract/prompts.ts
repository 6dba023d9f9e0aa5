import { z } from 'zod'
import type { Layout } from './manifest.ts'
import type { Mode } from './mode.ts'
import {
  automationPromptText,
  type AutomationRun,
  codingPromptText,
  type PromptPlace,
  scratchPromptText,
  setupPromptText,
} from './prompt-texts.ts'

export const SystemPromptMode = z.enum(['replace', 'append'])
export type SystemPromptMode = z.infer<typeof SystemPromptMode>

export interface PromptInput {
  mode: Mode
  /** null: the session has no repository. */
  repositoryName: string | null
  layout: Pick<Layout, 'workspace' | 'envFile'>
  automationRun?: AutomationRun | undefined
  /** The session's own. Empty counts as none. */
  systemPrompt: string | null
  systemPromptMode: SystemPromptMode
}

export interface PromptWarning {
  code: 'system_prompt_override' | 'run_without_automation_mode'
  message: string
}

export interface SelectedPrompt {
  text: string
  /** To be recorded with the session: who wrote what the model was told. */
  source: 'computed' | 'override' | 'append'
  warnings: PromptWarning[]
}

/** A session's own prompt replaces everything, exactly as it is, unless it asks to be added. */
export function selectPrompt(input: PromptInput): SelectedPrompt {
  const own = input.systemPrompt ?? ''
  if (own.trim() === '') {
    return { text: computePrompt(input), source: 'computed', warnings: runWarnings(input) }
  }
  if (input.systemPromptMode === 'append') {
    const text = `${computePrompt(input)}\n\n${appendedHead}\n\n${own}`
    return { text, source: 'append', warnings: runWarnings(input) }
  }
  return {
    text: own,
    source: 'override',
    warnings: [overrideWarning(input.mode), ...runWarnings(input)],
  }
}

const promptOf: Record<Mode, (place: PromptPlace, run?: AutomationRun) => string> = {
  scratch: scratchPromptText,
  setup: setupPromptText,
  automation: automationPromptText,
  coding: codingPromptText,
}

/** The prompt of a mode; the mode itself already says which of setup, automation and configuration came first. */
export function computePrompt(input: PromptInput): string {
  const { workspace, envFile } = input.layout
  const place = { repositoryName: input.repositoryName, workspace, envFile }
  return promptOf[input.mode](place, input.automationRun)
}

const appendedHead = `# Instructions of this session

These add to the rules above. Where they contradict them, the rules above hold.`

const overrideWarning = (mode: Mode): PromptWarning => ({
  code: 'system_prompt_override',
  message: `The session's system_prompt replaces the ${mode} prompt with all its rules on verification, secrets and completion. Use system_prompt_mode "append" to keep them. What a ${mode} session may do is enforced all the same`,
})

function runWarnings({ mode, automationRun }: PromptInput): PromptWarning[] {
  if (!automationRun || mode === 'automation') return []
  return [
    {
      code: 'run_without_automation_mode',
      message: `A ${mode} session cannot complete automation run "${automationRun.runId}": it has neither the tool nor the instructions`,
    },
  ]
}
