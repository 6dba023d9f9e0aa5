import type { Sql } from '../../ports.ts'
import { activeExecutionStep, type ActiveStep } from './active.ts'

const doing: Record<ActiveStep['type'], string> = {
  script: 'Gantry runs it. Wait for its end; tools that change something are refused until then.',
  agent: 'Do what the prompt of this step asks, and end with a text that says what came of it.',
  skill: 'Do what the skill says, and end with a text that says what came of it.',
  approval: 'A person decides. Tools that change something are refused until then.',
  workflow: 'Another ability is at work for it.',
}

/** What goes with each message while an ability is at work; null: none is. */
export function executionNotice(sql: Sql): string | null {
  const active = activeExecutionStep(sql)
  if (!active) return null
  const { ability, progress, level, steps } = active
  return [
    `## Active ability: ${ability}`,
    `Progress: ${progress} steps completed.`,
    ...steps.map(({ id, type }) => `Current step: ${id} (${type}). ${doing[type]}`),
    ...(level === 'strict'
      ? ['Its steps cannot be skipped, reordered or marked as done by you.']
      : []),
  ].join('\n')
}
