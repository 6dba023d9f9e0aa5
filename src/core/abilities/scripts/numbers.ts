import type { ParameterExpansionPart, SimpleExpansionPart, SyntaxNode } from 'unbash'
import type { AbilityInput } from '../../../contract/ability.ts'
import type { Reference } from './placeholders.ts'

/** Which values are numbers or plain words for certain, so that arithmetic finds no code in them. */

/** Those that arithmetic would look at: `N`, `$N`, `${N}`, and `$1` of the function or script that it stands in. */
export function namesInNumber(text: string, scope: string): string[] {
  const read = text.replaceAll(/\$\{#[^{}]*\}|\$#/g, '0')
  const names = read.match(/[A-Za-z_]\w*/g) ?? []
  return /\$\{?[1-9@*]/.test(read) ? [...names, `@${scope}`] : names
}

/** Null: what it gives is a number anyway, such as `$#` and `${#N}`. */
export function numberParameter(
  part: SimpleExpansionPart | ParameterExpansionPart,
  scope: string,
): string | null {
  if (part.type === 'ParameterExpansion' && part.prefix === '#') return null
  const name = part.type === 'ParameterExpansion' ? part.parameter : part.text.slice(1)
  if (/^(?:[1-9]\d*|[@*])$/.test(name)) return `@${scope}`
  return /^[A-Za-z_]\w*$/.test(name) ? name : null
}

/** `${N//[!0-9]/}` */
export const isDigitsOnly = (part: SimpleExpansionPart | ParameterExpansionPart): boolean =>
  part.type === 'ParameterExpansion' &&
  part.operation?.type === 'Replace' &&
  part.operation.operator === '//' &&
  /^\[[!^](?:0-9|[:]digit[:])\]$/.test(part.operation.pattern.text) &&
  part.operation.replacement.text === ''

/** It prints nothing but a number: a file that it names would be printed, too. */
export function printsNumber(node: SyntaxNode | undefined): boolean {
  if (node?.type !== 'Command') return false
  const words = node.suffix.flatMap((part) => (part.type === 'Word' ? [part] : []))
  const values = words.map(({ value }) => value)
  const name = (node.name?.value ?? '').replace(/^.*\//, '')
  if (words.some(({ text }) => /^["']?[$`]/.test(text))) return false
  if (name === 'wc') return values.every((value) => value.startsWith('-'))
  if (name === 'tr') return values.join(' ') === '-cd 0-9' || values.join(' ') === '-dc 0-9'
  return name === 'git' && values.includes('rev-list') && values.includes('--count')
}

/** An input whose declaration lets no text through that a shell could take for more than a number or a word. */
export function isNumberReference(
  reference: Reference,
  inputs: Readonly<Record<string, AbilityInput>>,
): boolean {
  if (reference.kind !== 'input' || !Object.hasOwn(inputs, reference.name)) return false
  const { type, enum: values, pattern } = inputs[reference.name] as AbilityInput
  if (type === 'number' || type === 'boolean') return true
  if (type !== 'string') return false
  const isWord = (value: unknown) => /^[\w.:/@%+-]*$/.test(String(value))
  return (values ?? ['[']).every(isWord) || numericPattern.test(pattern ?? '')
}

const numericPattern = /^\^(?:-\?)?(?:\[0-9\]|\\d)(?:[+*]|\{\d+(?:,\d*)?\})?\$$/
