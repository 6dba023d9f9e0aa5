import { EvaluatorConfig, LeafEvaluator } from '../../../contract/eval-evaluator.ts'
import type { DocumentPath } from '../../documents.ts'
import { jsonSchemaMistakes } from '../evaluators/json-schema.ts'
import type { Folder } from './folder.ts'
import { isRecord, type Names, type Reading, type Settings } from './reading.ts'

/** The evaluators of a case or a file, in any spelling that is known, as the contract has them. */

const typeNames: Record<string, string> = {
  llm_grader: 'llm_judge',
  code_grader: 'code_judge',
  rubrics: 'rubric',
  matches: 'regex',
  is_json: 'json_schema',
}
const types = new Set(EvaluatorConfig.options.map((option) => option.shape.type.value as string))

/** What a type calls its settings besides; in camelCase. */
const settingNames: Record<string, Names> = {
  regex: { value: 'pattern' },
  json_schema: { value: 'schema' },
  contains: { values: 'value' },
  file_exists: { path: 'paths' },
  code_judge: { script: 'command' },
  rubric: { criteria: 'rubrics' },
  composite: { assert: 'evaluators', assertions: 'evaluators' },
  diff_scope: { allowed: 'allow', denied: 'deny' },
}

export function readFileEvaluators(
  reading: Reading,
  folder: Folder,
  given: unknown,
  path: DocumentPath,
): EvaluatorConfig[] {
  return readList(reading, folder, given, path, EvaluatorConfig)
}

function readList<T extends { name: string }>(
  reading: Reading,
  folder: Folder,
  given: unknown,
  path: DocumentPath,
  schema: typeof EvaluatorConfig | typeof LeafEvaluator,
): T[] {
  if (!Array.isArray(given)) {
    reading.tell('error', path, 'Must be a list of evaluators')
    return []
  }
  const names = new Map<string, number>()
  return given.flatMap((each: unknown, at) => {
    const here = [...path, at]
    const settings = normalOf(reading, folder, each, here)
    if (settings === null) return []
    nameOnce(reading, settings, names, here)
    const config = reading.parse(schema as typeof EvaluatorConfig, settings, here)
    if (config === null) return []
    checkMeaning(reading, folder, config, settings, here)
    return [config as unknown as T]
  })
}

/** Without a name it is called by its type, and the second of a type has a number. */
function nameOnce(
  reading: Reading,
  settings: Settings,
  names: Map<string, number>,
  path: DocumentPath,
): void {
  const own = typeof settings['name'] === 'string' ? settings['name'] : null
  const base = own ?? String(settings['type'])
  const count = (names.get(base) ?? 0) + 1
  names.set(base, count)
  if (own !== null && count > 1)
    reading.tell('error', [...path, 'name'], `There is already an evaluator "${own}"`)
  if (settings['name'] === undefined) settings['name'] = count === 1 ? base : `${base}-${count}`
}

function normalOf(
  reading: Reading,
  folder: Folder,
  given: unknown,
  path: DocumentPath,
): Settings | null {
  // A sentence among the newer assertions is a rubric.
  if (typeof given === 'string')
    return reading.from({ type: 'rubric', rubrics: evaluatorRubrics(reading, [given], path) }, path)
  const type = isRecord(given) ? typeOf(given['type']) : ''
  if (isRecord(given) && !types.has(type)) {
    reading.tell('error', [...path, 'type'], `Must be one of ${[...types].join(', ')}`)
    return null
  }
  const settings = reading.settings(given, path, settingNames[type])
  if (settings === null) return null
  settings['type'] = type
  const before = reading.errorCount
  shape(reading, folder, settings)
  return reading.errorCount > before ? null : settings
}

const typeOf = (given: unknown): string => {
  const name = String(given).replaceAll('-', '_')
  return Object.hasOwn(typeNames, name) ? (typeNames[name] ?? name) : name
}

/** What may be written shorter. */
function shape(reading: Reading, folder: Folder, settings: Settings): void {
  const at = (key: string) => reading.pathOf(settings, key)
  const one = (key: string) => {
    if (typeof settings[key] === 'string')
      settings[key] = reading.from([settings[key]], at(key), true)
  }
  switch (settings['type']) {
    case 'contains':
      return one('value')
    case 'file_exists':
      return one('paths')
    case 'json_schema':
      settings['schema'] ??= {}
      return
    case 'rubric':
      settings['rubrics'] = evaluatorRubrics(reading, settings['rubrics'], at('rubrics'))
      return
    case 'code_judge':
      settings['command'] = commandOf(settings['command'])
      return
    case 'llm_judge':
      return promptOf(reading, folder, settings)
    case 'field_accuracy':
      settings['fields'] = eachSettings(reading, settings['fields'], at('fields'), {})
      return
    case 'tool_trajectory':
      settings['expected'] &&= eachSettings(reading, settings['expected'], at('expected'), {
        input: 'args',
      })
      return
    case 'composite':
      return partsOf(reading, folder, settings)
    default:
  }
}

function eachSettings(reading: Reading, given: unknown, path: DocumentPath, names: Names): unknown {
  return Array.isArray(given)
    ? given.map((each: unknown, at) => reading.settings(each, [...path, at], names) ?? each)
    : given
}

/** A sentence, or `{id, description, weight, required}`. */
export function evaluatorRubrics(reading: Reading, given: unknown, path: DocumentPath): unknown {
  if (!Array.isArray(given)) return given
  const rubrics = given.map((each: unknown, at) =>
    typeof each === 'string'
      ? { id: `rubric-${at + 1}`, description: each }
      : (reading.settings(each, [...path, at], {
          outcome: 'description',
          criterion: 'description',
        }) ?? each),
  )
  const ids = rubrics.map((each) => (isRecord(each) ? each['id'] : undefined))
  for (const [at, id] of ids.entries())
    if (id !== undefined && ids.indexOf(id) < at)
      reading.tell('error', [...path, at], `There is already a rubric ${JSON.stringify(id)}`)
  return reading.from(rubrics, path)
}

/** A list of words is one command: each word is quoted, so that nothing of it is more than a word. */
const commandOf = (given: unknown): unknown =>
  Array.isArray(given) && given.every((word) => typeof word === 'string')
    ? given
        .map((word: string) =>
          /^[\w./:=@-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`,
        )
        .join(' ')
    : given

/** A prompt may be in a file of its own. */
function promptOf(reading: Reading, folder: Folder, settings: Settings): void {
  const { prompt } = settings
  if (typeof prompt !== 'string' || !/^(file:\/\/)?\S+\.(md|txt)$/.test(prompt)) return
  const file = folder.find(reading.filePath, prompt)
  if (file === null)
    reading.tell('error', reading.pathOf(settings, 'prompt'), `There is no file "${prompt}"`)
  else settings['prompt'] = file.text
}

function partsOf(reading: Reading, folder: Folder, settings: Settings): void {
  const { aggregator } = settings
  const weights = weightsOf(reading, settings, aggregator)
  delete settings['aggregator']
  const path = reading.pathOf(settings, 'evaluators')
  const parts = readList<LeafEvaluator>(
    reading,
    folder,
    settings['evaluators'],
    path,
    LeafEvaluator,
  )
  for (const part of parts) part.weight = weights[part.name] ?? part.weight
  settings['evaluators'] = reading.from(parts, path)
}

/** The weighted mean is the only one; its weights may stand beside it, by name. */
function weightsOf(
  reading: Reading,
  settings: Settings,
  aggregator: unknown,
): Record<string, number> {
  if (aggregator === undefined) return {}
  const path = reading.pathOf(settings, 'aggregator')
  if (!isRecord(aggregator) || aggregator['type'] !== 'weighted_average') {
    reading.tell('error', path, 'Must be {type: weighted_average}')
    return {}
  }
  const { type: _, weights = {}, ...rest } = aggregator
  for (const key of Object.keys(rest))
    reading.tell('error', [...path, key], 'There is no such field')
  const isWeights =
    isRecord(weights) &&
    Object.values(weights).every((weight) => typeof weight === 'number' && weight >= 0)
  if (isWeights) return { ...weights } as Record<string, number>
  reading.tell('error', [...path, 'weights'], 'Must be a map of names and weights')
  return {}
}

/** What a schema cannot say. */
function checkMeaning(
  reading: Reading,
  folder: Folder,
  config: EvaluatorConfig,
  settings: Settings,
  path: DocumentPath,
): void {
  const tell = (key: string, message: string) =>
    reading.tell('error', key === '' ? path : reading.pathOf(settings, key), message)
  const pattern = (key: string, source: string) => {
    const read = folder.pattern(source)
    if ('problem' in read) tell(key, `Not a pattern in RE2 syntax: ${read.problem}`)
  }
  if (config.type === 'regex') pattern('pattern', config.pattern)
  if (config.type === 'file_matches') {
    if (config.pattern !== undefined) pattern('pattern', config.pattern)
    const { pattern: source, contains, equals } = config
    if (source === undefined && contains === undefined && equals === undefined)
      tell('', 'Needs pattern, contains or equals')
  }
  if (config.type === 'json_schema')
    for (const { path: at, message } of jsonSchemaMistakes(config.schema, (source) =>
      folder.pattern(source),
    ))
      reading.tell('error', [...reading.pathOf(settings, 'schema'), ...at], message)
  if (config.type === 'tool_trajectory') {
    if (config.mode === 'any_order' && Object.keys(config.minimums).length === 0)
      tell('', 'The mode any_order needs minimums')
    if (config.mode === 'in_order' && config.expected.length === 0)
      tell('', 'The mode in_order needs expected')
    if (config.mode === 'exact' && settings['expected'] === undefined)
      tell('', 'The mode exact needs expected')
    if (config.mode !== 'any_order' && Object.keys(config.minimums).length > 0)
      tell('minimums', 'Only the mode any_order has minimums')
    if (config.mode === 'any_order' && config.expected.length > 0)
      tell('expected', 'The mode any_order has minimums instead')
  }
  if (config.type === 'token_usage') {
    const { maxTotal, maxInput, maxOutput } = config
    if (maxTotal === undefined && maxInput === undefined && maxOutput === undefined)
      tell('', 'Needs max_total, max_input or max_output')
  }
}
