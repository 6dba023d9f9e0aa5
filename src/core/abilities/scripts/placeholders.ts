import type { InputValues, StepStatus } from '../../../contract/ability.ts'

/** Where a value is put into a text: `{{inputs.NAME}}`, `{{steps.ID.output}}` or `{{input}}`. Anything else in braces is text. */
export type Reference =
  | { kind: 'input'; name: string }
  | { kind: 'output'; step: string }
  | { kind: 'ask' }

export interface Placeholder {
  reference: Reference
  /** As it is written, braces too. */
  text: string
  at: number
}

const form =
  /\{\{[ \t]*(?:inputs\.([A-Za-z_][A-Za-z0-9_-]*)|steps\.([a-z0-9-]+)\.output|(input))[ \t]*\}\}/g

export const placeholdersOf = (text: string): Placeholder[] =>
  [...text.matchAll(form)].map(({ 0: found, 1: name, 2: step, index }) => ({
    reference:
      name !== undefined
        ? { kind: 'input', name }
        : step !== undefined
          ? { kind: 'output', step }
          : { kind: 'ask' },
    text: found,
    at: index,
  }))

/** What placeholders stand for. */
export interface Filling {
  inputs: InputValues
  steps: Readonly<Record<string, { status: StepStatus; output: string }>>
  /** In the words of whoever asked for the execution. */
  ask: string
}

/** An input without a value is the empty text; a step that has not run has no output. */
export function placeholderValue(reference: Reference, { inputs, steps, ask }: Filling): string {
  if (reference.kind === 'ask') return ask
  if (reference.kind === 'output') return steps[reference.step]?.output.trim() ?? ''
  const value = Object.hasOwn(inputs, reference.name) ? inputs[reference.name] : null
  if (value === null || value === undefined) return ''
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** For texts that no program reads as code: prompts, contexts, values of the environment, inputs of other abilities. */
export function fillPlaceholders(text: string, filling: Filling): string {
  let from = 0
  let filled = ''
  for (const { reference, text: written, at } of placeholdersOf(text)) {
    filled += text.slice(from, at) + placeholderValue(reference, filling)
    from = at + written.length
  }
  return filled + text.slice(from)
}
