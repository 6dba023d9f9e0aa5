import { AppError } from '../../contract/error.ts'
import { type EvalRunCreate, maxEvalAttempts } from '../../contract/eval-run.ts'
import { byteLength } from '../../contract/byte-length.ts'
import type { EvalCase, EvalChecked, EvalProblem, EvalSuite } from '../../contract/eval-suite.ts'
import type { Target } from '../../contract/eval-target.ts'
import { evaluatorJudges } from '../evals/evaluators/judges.ts'
import type { NewEvalRun } from './record/record.ts'

/** Of a case or a target as it is stored: a row of an object's database has at most 2 MB. */
const maxStoredBytes = 1536 * 1024

type Asked = Pick<EvalRunCreate, 'runTargets' | 'cases' | 'repetitions'>

/** What is to be attempted: every case as often as it is repeated, against every target that it is for. Pure. */
export function planEvalRun(
  { suite, targets, problems }: Pick<EvalChecked, 'suite' | 'targets' | 'problems'>,
  asked: Asked,
): Pick<NewEvalRun, 'runTargets' | 'targets' | 'cases' | 'leftOut' | 'attempts'> {
  if (suite === null || suite.cases.length === 0) throw unreadable(problems)
  if (targets.length === 0) throw unreadable(problems)
  const chosen = chooseTargets(suite, targets, asked)
  const cases = chooseCases(suite, asked)
  const attempts = cases.flatMap((one) =>
    chosen
      .filter(({ name }) => one.target === undefined || one.target === name)
      .flatMap(({ name }) => repeated(one, name, asked.repetitions ?? one.repetitions)),
  )
  const large = [...cases, ...targets].find(
    (one) => byteLength(JSON.stringify(one)) > maxStoredBytes,
  )
  if (large !== undefined) {
    const what = 'id' in large ? `the case "${large.id}"` : `the target "${large.name}"`
    throw cannot(`${what} with its files is larger than ${maxStoredBytes / 1024} KiB`, 'files')
  }
  if (attempts.length === 0) throw cannot('no case is for one of these targets', 'runTargets')
  if (attempts.length > maxEvalAttempts)
    throw cannot(`${attempts.length} attempts are more than ${maxEvalAttempts}`, 'repetitions')
  const leftOut = suite.cases
    .filter((one) => !cases.includes(one))
    .map(({ id, required, target }) => ({ id, required, ...(target !== undefined && { target }) }))
  return { runTargets: chosen.map(({ name }) => name), targets, cases, leftOut, attempts }
}

const repeated = ({ id }: EvalCase, target: string, times: number) =>
  Array.from({ length: times }, (_, repetition) => ({ caseId: id, target, repetition }))

function chooseTargets(
  suite: EvalSuite,
  targets: readonly Target[],
  { runTargets }: Asked,
): Target[] {
  const own = suite.target === undefined ? undefined : [suite.target]
  const named = suite.cases.flatMap(({ evaluators }) => evaluators.flatMap(evaluatorJudges))
  const judges = new Set([...targets.flatMap(({ judgeTarget }) => judgeTarget ?? []), ...named])
  const others = targets.map(({ name }) => name).filter((name) => !judges.has(name))
  const names = runTargets ?? own ?? others
  return [...new Set(names)].map((name) => {
    const found = targets.find((target) => target.name === name)
    if (found) return found
    const known = targets.map((target) => `"${target.name}"`).join(', ') || 'none'
    throw cannot(`there is no target "${name}"; known: ${known}`, 'runTargets')
  })
}

function chooseCases({ cases }: EvalSuite, asked: Asked): EvalCase[] {
  const wanted = asked.cases
  if (wanted === undefined) return cases
  const missing = wanted.filter((id) => !cases.some((one) => one.id === id))
  if (missing.length > 0) throw cannot(`there is no case "${missing[0]}"`, 'cases')
  return cases.filter(({ id }) => wanted.includes(id))
}

/** As many as help. */
const maxShown = 20

function unreadable(problems: readonly EvalProblem[]): AppError {
  const details = problems
    .filter(({ severity }) => severity === 'error')
    .slice(0, maxShown)
    .map(({ filePath, location, message }) => ({
      path: [filePath, location].filter(Boolean).join(': ') || 'files',
      message,
    }))
  const why = 'its files have no case or no target that can be run'
  return new AppError('unprocessable', `Cannot run the suite: ${why}`, details)
}

const cannot = (why: string, path: string) =>
  new AppError('unprocessable', `Cannot run the suite: ${why}`, [{ path, message: why }])
