import type { EvalSide } from '../../contract/eval-compare.ts'
import { AppError } from '../../contract/error.ts'
import type { EvalRun } from '../../contract/eval-run.ts'
import type { ResultRow } from '../../contract/eval-result.ts'
import type { EvalRunApi } from '../eval-run/eval-run.ts'
import type { Caller } from '../session/record/caller.ts'

const rowsAtOnce = 500

/** The results of a run, target by target, as comparisons, reports and gates look at them. */
export async function loadEvalSides(
  { runs }: Pick<EvalRunApi, 'runs'>,
  caller: Caller,
): Promise<{ run: EvalRun; sides: EvalSide[] }> {
  const run = await runs.view(caller)
  const planned = await runs.planned(caller)
  const leftOut = await runs.leftOut(caller)
  const rows: ResultRow[] = []
  for (let after: number | null = 0; after !== null;) {
    const page: Awaited<ReturnType<typeof runs.attempts>> = await runs.attempts(caller, {
      limit: rowsAtOnce,
      after,
    })
    rows.push(...page.items.flatMap(({ result }) => result ?? []))
    after = page.next
  }
  const sides = run.targets.map((target) => ({
    runId: run.id,
    target,
    suiteDigest: run.digest,
    cases: planned
      .filter((one) => one.target === target)
      .map(({ id, repetitions, required }) => ({ id, repetitions, required })),
    leftOut: leftOut
      .filter((one) => one.target === undefined || one.target === target)
      .map(({ id, required }) => ({ id, required })),
    rows: rows.filter((row) => row.target === target),
  }))
  return { run, sides }
}

/** The one that is named, or the only one. */
export function evalSideOf(sides: readonly EvalSide[], target: string | undefined): EvalSide {
  const found = sides.find((side) => side.target === target) ?? sides[0]
  const isMeant = target === undefined ? sides.length === 1 : found?.target === target
  if (found && isMeant) return found
  const names = sides.map((side) => `"${side.target}"`).join(', ')
  throw new AppError('unprocessable', `Name one of the targets of the run: ${names}`, [
    { path: 'target', message: `One of ${names}` },
  ])
}
