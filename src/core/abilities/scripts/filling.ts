import { type Filling, placeholderValue } from './placeholders.ts'
import type { DocumentEnd, Quoting, Slot, SlottedScript } from './slots.ts'

export type FilledScript = { script: string } | { problem: string }

/** By the name of an input whose value is not to be shown: the variable that has it. */
export type SecretVariables = ReadonlyMap<string, string>

/**
 * Puts the values in. A value that its place cannot hold is refused: it would not arrive as it is. Secret inputs are named
 * by their variables, so that the script can be shown.
 */
export function fillScriptSlots(
  { texts, slots }: SlottedScript,
  filling: Filling,
  secrets: SecretVariables = new Map(),
): FilledScript {
  let script = texts[0] ?? ''
  for (const [at, { reference, quoting, text }] of slots.entries()) {
    const variable = reference.kind === 'input' ? secrets.get(reference.name) : undefined
    if (variable !== undefined) {
      const named = quotedVariable(variable, quoting)
      if (named === null)
        return {
          problem: `Cannot fill ${text}: a secret cannot stand in a quoted here-document; read $ABILITY_INPUTS_JSON instead`,
        }
      script += named + (texts[at + 1] ?? '')
      continue
    }
    const value = placeholderValue(reference, filling)
    if (value.includes('\u0000') || !value.isWellFormed())
      return {
        problem: `Cannot fill ${text}: the value has characters that no program can be given`,
      }
    script += quoted(value, quoting) + (texts[at + 1] ?? '')
  }
  const broken = slots.find(({ documents }) =>
    documents.some((document) => !keepsEnd(slots, texts, filling, document)),
  )
  if (broken)
    return {
      problem: `Cannot fill ${broken.text}: a line of the value is the end of the here-document; read $ABILITY_INPUTS_JSON instead`,
    }
  return { script }
}

/** What a variable is replaced by is not read as code again, nor split inside of quotes. */
function quotedVariable(name: string, quoting: Quoting): string | null {
  if (quoting.kind === 'bare') return `"\${${name}}"`
  if (quoting.kind === 'single') return `'"\${${name}}"'`
  if (quoting.kind === 'double') return `\${${name}}`
  return quoting.quoted ? null : `\${${name}}`
}

function quoted(value: string, quoting: Quoting): string {
  const reopened = value.replaceAll("'", `'\\''`)
  if (quoting.kind === 'bare') return `'${reopened}'`
  if (quoting.kind === 'single') return reopened
  if (quoting.kind === 'double') return value.replaceAll(/[\\"$`]/g, '\\$&')
  return quoting.quoted ? value : value.replaceAll(/[\\$`]/g, '\\$&')
}

/** No value may bring a line that ends its here-document. */
function keepsEnd(
  slots: readonly Slot[],
  texts: readonly string[],
  filling: Filling,
  { end, tabs }: DocumentEnd,
): boolean {
  const count = (lines: string[]) =>
    lines.filter((line) => (tabs ? line.replace(/^\t+/, '') : line) === end).length
  const marked = texts.join('\u0001').split('\n')
  let filled = texts[0] ?? ''
  for (const [at, { reference, quoting }] of slots.entries())
    filled += quoted(placeholderValue(reference, filling), quoting) + (texts[at + 1] ?? '')
  return count(filled.split('\n')) <= count(marked)
}
