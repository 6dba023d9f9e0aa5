import { fixtureBundle, fixtureDelivery } from '../src/core/evidence/dry-run/fixture.ts'
import { proveChanges } from '../src/core/evidence/prove.ts'
import { EvidenceBundle } from '../src/contract/evidence.ts'
import { SnapshotProofFixture } from '../src/contract/proof-fixture.ts'
import { hashText } from '../src/core/hash.ts'
import type { Row } from './table.ts'

const files = 90
const rounds = 12

/** Edits of source files of about 20 KB, one each, in one window: what a large step brings. */
function editsOf(count: number, lines = 400) {
  const text = (nth: number) =>
    Array.from(
      { length: lines },
      (_, at) => `line ${at} of file ${nth}: const value = ${at}\n`,
    ).join('')
  const all = Array.from({ length: count }, (_, nth) => ({ path: `f${nth}.ts`, before: text(nth) }))
  const fixture = SnapshotProofFixture.parse({
    name: 'bench',
    mode: 'full',
    attributionMode: 'strict-delivery',
    delivery: {
      ...{ teamName: 't', taskId: 'run', memberName: 'build' },
      ...{ sessionId: 's', assistantMessageId: 'm' },
    },
    windows: [
      {
        ...{ messageId: 'm', windowId: 'w', fromSnapshot: 'a', toSnapshot: 'b' },
        ...{ startPartOrder: 0, finishPartOrder: count + 1 },
      },
    ],
    parts: all.map(({ path }, nth) => ({
      ...{ partId: `p${nth}`, messageId: 'm', order: nth + 1, tool: 'edit', filePath: path },
      ...{ oldString: `line ${lines / 2} of`, newString: `LINE ${lines / 2} of` },
    })),
    snapshotFiles: all.map(({ path, before }) => ({
      relativePath: path,
      beforeContent: before,
      afterContent: before.replace(`line ${lines / 2} of`, `LINE ${lines / 2} of`),
      ...{ beforeExists: true, afterExists: true },
    })),
  })
  return {
    bundle: fixtureBundle(fixture),
    delivery: fixtureDelivery(fixture),
    mode: 'full',
  } as const
}

/** The engine against nothing but SHA-256 over both sides of the same files, by the same code. */
export function measureEvidence(): Row[] {
  const input = editsOf(files)
  const sides = input.bundle.files
    .flatMap(({ before, after }) => [before, after])
    .flatMap((side) => (side.state === 'text' ? [side.text] : []))
  const bytes = sides.reduce((total, text) => total + Buffer.byteLength(text), 0)
  const hashAll = () => {
    for (const text of sides) hashText(text)
  }
  const prove = () => {
    const { upgradedChanges } = proveChanges(input).statistics
    if (upgradedChanges !== files) throw new Error(`Only ${upgradedChanges} of ${files} are proven`)
  }
  for (let warm = 0; warm < 3; warm += 1) [hashAll, prove].forEach((work) => work())
  const [base, ours, baseAgain] = [secondsOf(hashAll), secondsOf(prove), secondsOf(hashAll)]
  const row = (measure: string, unit: string, amount: number): Row => ({
    ...{ measure, unit, aim: { least: 0.3 } },
    ours: amount / ours,
    base: amount / base,
    baseAgain: amount / baseAgain,
  })
  return [
    row('evidence: files proven', 'files/s', files),
    row('evidence: texts proven', 'MB/s', bytes / 1e6),
    backfillRow(),
  ]
}

const backfilled = 10_000

/** The bundles of a long history, from their text to the decisions, against reading and hashing that text alone. */
function backfillRow(): Row {
  const perBundle = 100
  const input = editsOf(perBundle, 10)
  const text = JSON.stringify(input.bundle)
  const bundles = backfilled / perBundle
  const each = (work: () => void) => () => {
    for (let nth = 0; nth < bundles; nth += 1) work()
  }
  const read = each(() => void [JSON.parse(text), hashText(text)])
  const decide = each(() => {
    const bundle = EvidenceBundle.parse(JSON.parse(text))
    const { upgradedChanges } = proveChanges({ ...input, bundle }).statistics
    if (upgradedChanges !== perBundle) throw new Error(`Only ${upgradedChanges} are proven`)
  })
  for (const work of [read, decide]) work()
  const [base, ours, baseAgain] = [read, decide, read].map((work) => secondsOf(work, 3)) as [
    ...[number, number, number],
  ]
  const perSecond = (seconds: number) => backfilled / seconds
  return {
    measure: 'evidence: backfill of 10,000 tool parts, decided / read and hashed',
    ...{ ours: perSecond(ours), base: perSecond(base), baseAgain: perSecond(baseAgain) },
    unit: 'parts/s',
  }
}

/** Of one round, on average. */
function secondsOf(work: () => void, times = rounds): number {
  const begun = performance.now()
  for (let round = 0; round < times; round += 1) work()
  return (performance.now() - begun) / times / 1000
}
