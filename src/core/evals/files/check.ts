import type {
  EvalChecked,
  EvalFiles,
  EvalProblem,
  EvalSuite,
} from '../../../contract/eval-suite.ts'
import type { Target } from '../../../contract/eval-target.ts'
import { evaluatorJudges } from '../evaluators/judges.ts'
import { Folder } from './folder.ts'
import { maxProblems } from './reading.ts'
import { suiteFileDigest, readSuiteFile } from './suite.ts'
import { readTargetsFile } from './targets.ts'

/** Everything that can be said of eval files without running them. Whoever starts a run reads them by this, too. */
export function checkEvalFiles({ files, suite, targets, variables }: EvalFiles): EvalChecked {
  const folder = new Folder(files)
  const read = suite === undefined ? { suite: null, problems: [] } : readSuiteFile(folder, suite)
  const aimed =
    targets === undefined
      ? { targets: [], problems: [] }
      : readTargetsFile(folder, targets, variables)
  const problems = [...read.problems, ...aimed.problems]
  if (
    read.suite !== null &&
    suite !== undefined &&
    targets !== undefined &&
    aimed.problems.length === 0
  )
    problems.push(...unknownTargets(read.suite, aimed.targets, suite))
  if (suite === undefined && targets === undefined)
    problems.push(wrong('', 'Name the eval file (suite), the targets file (targets), or both'))
  return {
    valid: problems.every(({ severity }) => severity !== 'error'),
    problems: problems.slice(0, maxProblems),
    suite: read.suite,
    digest: read.suite === null ? null : suiteFileDigest(read.suite),
    targets: aimed.targets,
  }
}

const wrong = (filePath: string, message: string): EvalProblem => ({
  severity: 'error',
  filePath,
  location: '',
  message,
})

/** A case that no target runs would be missing from every result. */
function unknownTargets(suite: EvalSuite, targets: readonly Target[], path: string): EvalProblem[] {
  const known = new Set(targets.map(({ name }) => name))
  const named = [
    ...(suite.target === undefined ? [] : [{ name: suite.target, who: 'The file' }]),
    ...suite.cases.flatMap(({ id, target, evaluators }) => [
      ...(target === undefined ? [] : [{ name: target, who: `The case "${id}"` }]),
      ...evaluators.flatMap((config) =>
        evaluatorJudges(config).map((name) => ({
          name,
          who: `The evaluator "${config.name}" of the case "${id}"`,
        })),
      ),
    ]),
  ]
  return named
    .filter(({ name }) => !known.has(name))
    .map(({ name, who }) => wrong(path, `${who} names the target "${name}", which there is not`))
}
