import { AppError } from '../../contract/error.ts'
import { type EvalRunCreate, maxEvalAttempts } from '../../contract/eval-run.ts'
import type { EvalCase, EvalChecked, EvalSuite } from '../../contract/eval-suite.ts'
import type { Target } from '../../contract/eval-target.ts'
import type { NewEvalRun } from './record/record.ts'

type Asked = Pick<EvalRunCreate, 'runTargets' | 'cases' | 'repetitions'>

/** What is to be attempted: every case as often as it is repeated, against every target that it is for. Pure. */
export function planEvalRun(
  { suite, targets }: Pick<EvalChecked, 'suite' | 'targets'>,
  asked: Asked,
): Pick<NewEvalRun, 'runTargets' | 'targets' | 'cases' | 'attempts'> {
  if (suite === null) throw cannot('no case of the suite can be run', 'files')
  const chosen = chooseTargets(suite, targets, asked)
  const cases = chooseCases(suite, asked)
  const attempts = cases.flatMap((one) =>
    chosen
      .filter(({ name }) => one.target === undefined || one.target === name)
      .flatMap(({ name }) => repeated(one, name, asked.repetitions ?? one.repetitions)),
  )
  if (attempts.length === 0) throw cannot('no case is for one of these targets', 'runTargets')
  if (attempts.length > maxEvalAttempts)
    throw cannot(`${attempts.length} attempts are more than ${maxEvalAttempts}`, 'repetitions')
  return { runTargets: chosen.map(({ name }) => name), targets, cases, attempts }
}

const repeated = ({ id }: EvalCase, target: string, times: number) =>
  Array.from({ length: times }, (_, repetition) => ({ caseId: id, target, repetition }))

function chooseTargets(
  suite: EvalSuite,
  targets: readonly Target[],
  { runTargets }: Asked,
): Target[] {
  const own = suite.target === undefined ? undefined : [suite.target]
  const names = runTargets ?? own ?? targets.map(({ name }) => name)
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

const cannot = (why: string, path: string) =>
  new AppError('unprocessable', `Cannot run the suite: ${why}`, [{ path, message: why }])
