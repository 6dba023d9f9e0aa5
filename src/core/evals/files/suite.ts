import { canonicalJson } from '../../../contract/canonical.ts'
import { EvaluatorConfig } from '../../../contract/eval-evaluator.ts'
import {
  EvalCase,
  type EvalProblem,
  EvalSuite,
  maxEvalCases,
} from '../../../contract/eval-suite.ts'
import type { DocumentPath } from '../../documents.ts'
import { hashText } from '../../hash.ts'
import { readFileEvaluators, evaluatorRubrics } from './evaluators.ts'
import type { Folder } from './folder.ts'
import { readCaseMessages } from './messages.ts'
import {
  isRecord,
  openReading,
  openLineReadings,
  type Names,
  type Reading,
  type Settings,
} from './reading.ts'

/**
 * Reads an eval file: YAML, or JSONL with one case per line and an optional YAML file of the same name beside it. It takes
 * the documented spelling and the newer one. A case that has a mistake is told and left out; the others go on.
 */
export interface ReadSuite {
  suite: EvalSuite | null
  problems: EvalProblem[]
}

/** What holds for all cases unless they say otherwise. */
interface Defaults {
  evaluators: EvaluatorConfig[] | null
  repetitions: unknown
  workspace: unknown
}

const caseKeys = {
  evalcases: 'cases',
  evalCases: 'cases',
  tests: 'cases',
} as const
const suiteNames: Names = {
  ...caseKeys,
  name: 'dataset',
  suite: 'dataset',
  assert: 'evaluators',
  assertions: 'evaluators',
  graders: 'evaluators',
  trials: 'repetitions',
}
const caseNames: Names = {
  outcome: 'expectedOutcome',
  criteria: 'expectedOutcome',
  input: 'inputMessages',
  expectedOutput: 'expectedMessages',
  assert: 'evaluators',
  assertions: 'evaluators',
  graders: 'evaluators',
  trials: 'repetitions',
}

export function readSuiteFile(folder: Folder, path: string): ReadSuite {
  const text = folder.text(path)
  if (text === null) return { suite: null, problems: [missingFile(path)] }
  const isLines = path.endsWith('.jsonl')
  const sidecar = isLines ? folder.text(path.replace(/\.jsonl$/, '.yaml')) : null
  const opened = isLines
    ? openReading(path.replace(/\.jsonl$/, '.yaml'), sidecar ?? '{}')
    : openReading(path, text)
  if ('problems' in opened) return { suite: null, problems: opened.problems }
  const { reading } = opened
  const settings = reading.settings(reading.value, [], suiteNames)
  if (settings === null) return { suite: null, problems: reading.problems }
  const problems: EvalProblem[] = []
  const defaults = readDefaults(reading, folder, settings)
  const cases: EvalCase[] = []
  const take = (read: CaseList) => {
    for (const each of read.cases) cases.push(each)
    for (const problem of read.problems) problems.push(problem)
  }
  if (isLines) take(casesOfLines(folder, path, text, defaults))
  else readCases(reading, folder, settings, defaults, take)
  const head = headOf(reading, settings, path)
  const kept = withoutRepeats(cases, problems, path)
  return {
    suite: head === null ? null : { ...head, cases: kept },
    problems: [...reading.problems, ...problems],
  }
}

const missingFile = (filePath: string): EvalProblem => ({
  severity: 'error',
  filePath,
  location: '',
  message: 'There is no such file among those that were given',
})

/** Equal exactly if the suites ask and expect the same: a description does not count. */
export const suiteFileDigest = (suite: EvalSuite): string =>
  hashText(canonicalJson({ ...suite, description: undefined }))

const forCases = new Set(['cases', 'evaluators', 'repetitions', 'workspace', 'execution'])

function headOf(reading: Reading, settings: Settings, path: string): EvalSuite | null {
  const { execution } = settings
  const target = isRecord(execution) ? execution['target'] : undefined
  const own = Object.entries(settings).filter(([key]) => !forCases.has(key))
  const head = {
    dataset:
      path
        .split('/')
        .at(-1)
        ?.replace(/(\.eval)?\.(ya?ml|jsonl?)$/, '') || 'evals',
    ...(target !== undefined && { target }),
    ...Object.fromEntries(own),
    cases: [],
  }
  return reading.parse(EvalSuite, reading.sameAs(head, settings), [])
}

const executionKeys = new Set(['target', 'evaluators', 'assert', 'repetitions', 'workspace'])

/** What stands under `execution` counts like what stands beside it, and before it. */
function executionOf(reading: Reading, settings: Settings): Settings {
  if (settings['execution'] === undefined) return {}
  const path = reading.pathOf(settings, 'execution')
  const execution = reading.settings(settings['execution'], path, { assert: 'evaluators' })
  for (const key of Object.keys(execution ?? {}))
    if (!executionKeys.has(key))
      reading.tell('error', reading.pathOf(execution ?? {}, key), 'There is no such field')
  return execution ?? {}
}

function evaluatorsIn(
  reading: Reading,
  folder: Folder,
  execution: Settings,
  settings: Settings,
): EvaluatorConfig[] | null {
  const holder = execution['evaluators'] === undefined ? settings : execution
  const given = holder['evaluators']
  if (given === undefined) return null
  return readFileEvaluators(reading, folder, given, reading.pathOf(holder, 'evaluators'))
}

function readDefaults(reading: Reading, folder: Folder, settings: Settings): Defaults {
  const execution = executionOf(reading, settings)
  return {
    evaluators: evaluatorsIn(reading, folder, execution, settings),
    repetitions: execution['repetitions'] ?? settings['repetitions'],
    workspace: workspaceIn(reading, folder, execution, settings),
  }
}

interface CaseList {
  cases: EvalCase[]
  problems: EvalProblem[]
}

function readCases(
  reading: Reading,
  folder: Folder,
  settings: Settings,
  defaults: Defaults,
  take: (read: CaseList) => void,
): void {
  const given = settings['cases']
  const path = reading.pathOf(settings, 'cases')
  if (given === undefined) return reading.tell('error', [], 'Needs a list of cases: evalcases')
  const list = typeof given === 'string' ? [given] : given
  if (!Array.isArray(list)) return reading.tell('error', path, 'Must be a list of cases')
  if (list.length > maxEvalCases)
    return reading.tell('error', path, `Must have at most ${maxEvalCases} cases`)
  const named = new Set<string>()
  for (const [at, each] of (list as unknown[]).entries()) {
    const here = typeof given === 'string' ? path : [...path, at]
    if (typeof each !== 'string') {
      const read = readCase(reading, folder, each, here, defaults)
      if (read !== null) take({ cases: [read], problems: [] })
      continue
    }
    const file = folder.find(reading.filePath, each)
    if (file === null) reading.tell('error', here, `There is no file "${each}"`)
    else if (named.has(file.path)) reading.tell('error', here, `Names "${each}" again`)
    else take(casesOfFile(folder, file.path, file.text, defaults))
    if (file !== null) named.add(file.path)
  }
}

/** One case, a list of them, or `{evalcases: […]}`. */
function casesOfFile(folder: Folder, path: string, text: string, defaults: Defaults): CaseList {
  if (path.endsWith('.jsonl')) return casesOfLines(folder, path, text, defaults)
  const opened = openReading(path, text)
  if ('problems' in opened) return { cases: [], problems: opened.problems }
  const { reading } = opened
  const { value } = reading
  const key = isRecord(value)
    ? ['evalcases', ...Object.keys(caseKeys)].find((name) => name in value)
    : undefined
  const held = key === undefined ? value : (value as Settings)[key]
  const base = key === undefined ? [] : [key]
  const cases = Array.isArray(held)
    ? held.map((each: unknown, at) => readCase(reading, folder, each, [...base, at], defaults))
    : [readCase(reading, folder, held, base, defaults)]
  return { cases: cases.filter((each) => each !== null), problems: reading.problems }
}

function casesOfLines(folder: Folder, path: string, text: string, defaults: Defaults): CaseList {
  const { readings, problems } = openLineReadings(path, text)
  const cases = readings.map((reading) => readCase(reading, folder, reading.value, [], defaults))
  return {
    cases: cases.filter((each) => each !== null),
    problems: [...problems, ...readings.flatMap((reading) => reading.problems)],
  }
}

/** Null if it has a mistake, which was told. */
function readCase(
  whole: Reading,
  folder: Folder,
  given: unknown,
  path: DocumentPath,
  defaults: Defaults,
): EvalCase | null {
  const before = whole.errorCount
  const settings = whole.settings(given, path, caseNames)
  if (settings === null) return null
  const execution = executionOf(whole, settings)
  const evaluators = evaluatorsIn(whole, folder, execution, settings) ?? defaults.evaluators
  const rubric = rubricOf(whole, settings)
  const workspace = workspaceIn(whole, folder, execution, settings) ?? defaults.workspace
  const normal: Settings = {
    repetitions: execution['repetitions'] ?? settings['repetitions'] ?? defaults.repetitions ?? 1,
    ...(workspace !== undefined && { workspace }),
  }
  if (execution['target'] !== undefined) normal['target'] = execution['target']
  for (const [key, value] of Object.entries(settings))
    if (!['execution', 'evaluators', 'rubrics', 'repetitions', 'workspace'].includes(key))
      normal[key] = value
  for (const [key, usual] of [
    ['inputMessages', 'user'],
    ['expectedMessages', 'assistant'],
  ] as const)
    if (settings[key] !== undefined)
      normal[key] = readCaseMessages(
        whole,
        folder,
        settings[key],
        whole.pathOf(settings, key),
        usual,
      )
  normal['evaluators'] = whole.from(
    [
      ...(rubric === null ? [] : [rubric]),
      ...(evaluators ?? (rubric === null ? [usualJudge()] : [])),
    ],
    path,
  )
  const parsed = whole.parse(EvalCase, whole.sameAs(normal, settings), path)
  return whole.errorCount > before ? null : parsed
}

/** Nothing else is said of what scores a case: a model judges it by its expected outcome. */
const usualJudge = () => EvaluatorConfig.parse({ type: 'llm_judge', name: 'llm_judge' })

function rubricOf(reading: Reading, settings: Settings): EvaluatorConfig | null {
  if (settings['rubrics'] === undefined) return null
  const path = reading.pathOf(settings, 'rubrics')
  const rubrics = evaluatorRubrics(reading, settings['rubrics'], path)
  return reading.parse(
    EvaluatorConfig,
    reading.from({ type: 'rubric', name: 'rubric', rubrics }, path),
    path,
  )
}

/** Files of a workspace by path: a text, or the name of a file beside the suite. */
function workspaceIn(
  reading: Reading,
  folder: Folder,
  execution: Settings,
  settings: Settings,
): unknown {
  const holder = execution['workspace'] === undefined ? settings : execution
  const given = holder['workspace']
  if (given === undefined) return undefined
  const path = reading.pathOf(holder, 'workspace')
  const workspace = reading.settings(given, path, {
    repo: 'repository',
    configuration: 'configurationId',
  })
  if (workspace === null) return undefined
  const { files } = workspace
  const at = reading.pathOf(workspace, 'files')
  if (isRecord(files))
    workspace['files'] = reading.from(
      Object.entries(files).map(([name, content]) => {
        const here = [...at, name]
        return reading.from(
          { path: name, text: textOf(reading, folder, content, here) },
          here,
          true,
        )
      }),
      at,
    )
  const { repository } = workspace
  if (isRecord(repository))
    workspace['repository'] = reading.settings(
      repository,
      reading.pathOf(workspace, 'repository'),
      { commit: 'ref' },
    )
  return workspace
}

function textOf(reading: Reading, folder: Folder, given: unknown, path: DocumentPath): unknown {
  if (!isRecord(given) || typeof given['file'] !== 'string') return given
  const file = folder.find(reading.filePath, given['file'])
  if (file === null) reading.tell('error', path, `There is no file "${given['file']}"`)
  return file?.text ?? ''
}

/** An id names a case in results: of two with the same the first one counts. */
function withoutRepeats(
  cases: readonly EvalCase[],
  problems: EvalProblem[],
  filePath: string,
): EvalCase[] {
  const seen = new Set<string>()
  return cases.filter(({ id }) => {
    if (!seen.has(id)) return seen.add(id)
    problems.push({
      severity: 'error',
      filePath,
      location: '',
      message: `There is already a case "${id}"`,
    })
    return false
  })
}
