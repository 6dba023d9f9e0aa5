import { z } from 'zod'
import {
  type AbilityCheck,
  type AbilityChecked,
  AbilityDocument,
  AbilityName,
  type AbilityProblem,
  type AbilityProblemCode,
  type AbilityStep,
  maxAbilityBytes,
} from '../../contract/ability.ts'
import { type DocumentPath, parseDocument, type Report } from '../documents.ts'
import { parseDuration } from './durations.ts'
import { graphNeeds, findGraphCycle, orderStepGraph } from './graph.ts'
import { checkInputValue } from './inputs.ts'
import { readPattern } from './patterns.ts'
import { isNumberReference } from './scripts/numbers.ts'
import { placeholdersOf, type Reference } from './scripts/placeholders.ts'
import { isCodeVariable } from './scripts/commands.ts'
import { readScriptSlots } from './scripts/slots.ts'
import { checkCondition, readCondition } from './conditions.ts'

/** An ability that was read: it has a name, and everything that can be checked without other rows holds. */
export type Ability = AbilityDocument & {
  name: string
  /** Texts of its folder for those who work on its steps. Absent: only the file was read. */
  guide?: string
}

export type ParsedAbility = { ability: Ability; warnings: string[] } | { errors: AbilityProblem[] }

/** Tells of a mistake at a field, with its code. */
type Tell = (path: DocumentPath, code: AbilityProblemCode, message: string) => void

/**
 * A file as a team wrote it, or every mistake in it with its place. Without a name of its own it is called by its path
 * below `abilities/`. Reads no other row.
 */
export function parseAbilityDefinition(source: string, path: string | null): ParsedAbility {
  const parsed = parseDocument(source, 'yaml', {
    schema: z.preprocess(withTypes, AbilityDocument),
    maxBytes: maxAbilityBytes,
    check: (ability, report) => checkMeaning(ability, path, report),
  })
  if ('errors' in parsed)
    return {
      errors: parsed.errors.map(
        ({ code = 'SCHEMA_ERROR', ...error }) => ({ ...error, code }) as AbilityProblem,
      ),
    }
  const name = parsed.value.name ?? definitionNameOfPath(path ?? '') ?? ''
  const ability = { ...parsed.value, name }
  return { ability, warnings: warningsOf(ability) }
}

/** Everything that can be said of a file without running it. */
export function checkAbilityDefinition({ source, path }: AbilityCheck): AbilityChecked {
  const parsed = parseAbilityDefinition(source, path ?? null)
  if ('errors' in parsed)
    return { valid: false, errors: parsed.errors, warnings: [], ability: null }
  const { name, ...definition } = parsed.ability
  const order = orderStepGraph(definition.steps)?.map(({ id }) => id) ?? []
  return {
    valid: true,
    errors: [],
    warnings: parsed.warnings,
    ability: { name, definition, order },
  }
}

/** `.opencode/abilities/deploy/production/ability.yaml` is deploy/production; a flat file is called like the file. */
export function definitionNameOfPath(path: string): string | null {
  const below = path.replaceAll('\\', '/').replace(/^(.*\/)?abilities\//, '')
  const name = below.replace(/(^|\/)ability\.ya?ml$/, '').replace(/\.ya?ml$/, '')
  return AbilityName.safeParse(name).success ? name : null
}

const typeKeys = { run: 'script', agent: 'agent', skill: 'skill', workflow: 'workflow' } as const

/** A step without a type has that of its one telling key; with none or several of them it has none. */
function withTypes(given: unknown): unknown {
  const steps = isObject(given) && Array.isArray(given['steps']) ? given['steps'] : null
  return steps === null ? given : { ...(given as object), steps: steps.map(withType) }
}

function withType(step: unknown): unknown {
  if (!isObject(step) || 'type' in step) return step
  const [key, ...more] = Object.keys(typeKeys).filter((name) => name in step)
  return key === undefined || more.length > 0
    ? step
    : { ...step, type: typeKeys[key as keyof typeof typeKeys] }
}

const isObject = (given: unknown): given is Record<string, unknown> =>
  typeof given === 'object' && given !== null && !Array.isArray(given)

function checkMeaning(ability: AbilityDocument, path: string | null, report: Report): void {
  const tell: Tell = (at, code, message) => report(at, message, code)
  if (ability.name === undefined && definitionNameOfPath(path ?? '') === null)
    tell(['name'], 'SCHEMA_ERROR', 'Required: the path of the file gives no name')
  checkTriggers(ability, tell)
  checkInputSpecs(ability, tell)
  checkDurations(ability, tell)
  checkGraph(ability, tell)
  checkConditions(ability, tell)
  checkScripts(ability, tell)
  checkPlaceholders(ability, tell)
}

function checkTriggers({ triggers }: AbilityDocument, tell: Tell): void {
  for (const [at, pattern] of (triggers?.patterns ?? []).entries())
    checkPattern(['triggers', 'patterns', at], pattern, tell)
}

function checkPattern(path: DocumentPath, pattern: string, tell: Tell): void {
  const read = readPattern(pattern)
  if ('problem' in read) tell(path, 'INVALID_REGEX', `Not a pattern in RE2 syntax: ${read.problem}`)
}

function checkInputSpecs({ inputs }: AbilityDocument, tell: Tell): void {
  for (const [name, input] of Object.entries(inputs)) {
    if (input.pattern !== undefined) checkPattern(['inputs', name, 'pattern'], input.pattern, tell)
    if (input.default === undefined || input.default === null) continue
    const wrong = checkInputValue(input, input.default)
    if (wrong !== null) tell(['inputs', name, 'default'], 'INVALID_DEFAULT', wrong[1])
  }
}

function checkDurations({ steps, settings }: AbilityDocument, tell: Tell): void {
  const check = (path: DocumentPath, given: AbilityStep['timeout']) => {
    if (given !== undefined && parseDuration(given) === null)
      tell(
        path,
        'INVALID_DURATION',
        'A duration is such as 500ms, 30s, 5m, 1h or 2m30s, at most a day',
      )
  }
  check(['settings', 'timeout'], settings.timeout)
  for (const [at, { timeout }] of steps.entries()) check(['steps', at, 'timeout'], timeout)
}

function checkGraph({ steps }: AbilityDocument, tell: Tell): void {
  const ids = new Set<string>()
  for (const [at, { id }] of steps.entries()) {
    if (ids.has(id)) tell(['steps', at, 'id'], 'DUPLICATE_ID', `There is already a step "${id}"`)
    ids.add(id)
  }
  for (const [at, { needs }] of steps.entries())
    for (const [index, need] of needs.entries())
      if (!ids.has(need))
        tell(['steps', at, 'needs', index], 'MISSING_DEPENDENCY', `There is no step "${need}"`)
  const cycle = findGraphCycle(steps)
  if (cycle !== null) {
    const at = steps.findIndex(({ id }) => id === cycle[0])
    tell(
      ['steps', at, 'needs'],
      'CIRCULAR_DEPENDENCY',
      `Steps need each other: ${cycle.join(' → ')}`,
    )
  }
}

function checkConditions(ability: AbilityDocument, tell: Tell): void {
  const { steps, inputs } = ability
  const order = orderStepGraph(steps)?.map(({ id }) => id) ?? []
  const all = new Set(steps.map(({ id }) => id))
  for (const [at, { id, when }] of steps.entries()) {
    if (when === undefined) continue
    const path = ['steps', at, 'when']
    const read = readCondition(when)
    if ('problem' in read) {
      tell(path, 'INVALID_CONDITION', read.problem)
      continue
    }
    const before = endedBefore(ability, order, id)
    for (const problem of checkCondition(read.condition, { inputs, before, steps: all }))
      tell(path, 'INVALID_CONDITION', problem)
  }
}

function checkScripts({ steps, hooks, inputs }: AbilityDocument, tell: Tell): void {
  const check = (path: DocumentPath, script: string, environment: Record<string, string> = {}) => {
    const isNumeric = (reference: Reference) => isNumberReference(reference, inputs)
    const read = readScriptSlots(script, { isNumeric, environment })
    if ('problems' in read)
      for (const problem of read.problems) tell(path, 'UNSAFE_PLACEHOLDER', problem)
  }
  for (const [at, step] of steps.entries()) {
    if (step.type !== 'script') continue
    check(['steps', at, 'run'], step.run, withoutCodeVariables(step.env))
    for (const [name, text] of Object.entries(step.env))
      if (isCodeVariable(name) && placeholdersOf(text).length > 0)
        tell(['steps', at, 'env', name], 'UNSAFE_PLACEHOLDER', `A shell runs what is in ${name}`)
  }
  for (const [at, command] of hooks.before.entries()) check(['hooks', 'before', at], command)
  for (const [at, command] of hooks.after.entries()) check(['hooks', 'after', at], command)
}

/** They are told of by themselves. */
const withoutCodeVariables = (env: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !isCodeVariable(name)))

/** A placeholder names an input that there is, or a step that has ended by then; other texts in braces stay as they are. */
function checkPlaceholders(ability: AbilityDocument, tell: Tell): void {
  const order = orderStepGraph(ability.steps)?.map(({ id }) => id) ?? []
  const check = (path: DocumentPath, given: unknown, before: ReadonlySet<string>) => {
    for (const { path: at, text } of textsIn(given, path))
      for (const { reference, text: written } of placeholdersOf(text)) {
        if (reference.kind === 'input' && !Object.hasOwn(ability.inputs, reference.name))
          tell(at, 'UNKNOWN_PLACEHOLDER', `${written}: there is no input "${reference.name}"`)
        if (reference.kind === 'output' && !before.has(reference.step))
          tell(
            at,
            'UNKNOWN_PLACEHOLDER',
            `${written}: no step "${reference.step}" has ended by then`,
          )
      }
  }
  for (const [at, step] of ability.steps.entries())
    check(['steps', at], step, endedBefore(ability, order, step.id))
  check(['hooks', 'before'], ability.hooks.before, new Set())
  check(['hooks', 'after'], ability.hooks.after, new Set(order))
}

/** With parallel steps only what it needs, else whatever comes before it. */
const endedBefore = (
  { steps, settings }: AbilityDocument,
  order: readonly string[],
  id: string,
): ReadonlySet<string> =>
  settings.parallel ? graphNeeds(steps, id) : new Set(order.slice(0, order.indexOf(id)))

function textsIn(given: unknown, path: DocumentPath): { path: DocumentPath; text: string }[] {
  if (typeof given === 'string') return [{ path, text: given }]
  if (typeof given !== 'object' || given === null) return []
  return Object.entries(given).flatMap(([key, value]) => textsIn(value, [...path, key]))
}

/** What is allowed and probably a mistake: keys that nobody reads. */
function warningsOf(ability: Ability): string[] {
  const known = new Set(Object.keys(AbilityDocument.shape))
  const unread = Object.keys(ability).filter((key) => !known.has(key) && !key.startsWith('x-'))
  return [...unread.map((key) => `Nobody reads the field "${key}"`), ...unfilledPlaces(ability)]
}

/** Of a step: where values are put in. Elsewhere a placeholder stays as it is written. */
const filledFields = new Set(['run', 'cwd', 'env', 'validation', 'prompt', 'context', 'inputs'])

const unfilledPlaces = ({ steps }: Ability): string[] =>
  steps.flatMap(({ id, ...step }) =>
    Object.entries(step)
      .filter(([key]) => !filledFields.has(key))
      .flatMap(([key, value]) => textsIn(value, [key]))
      .flatMap(({ path, text }) => placeholdersOf(text).map((one) => [path[0], one.text] as const))
      .map(([key, text]) => `Step "${id}": ${text} stays as it is in "${String(key)}"`),
  )
