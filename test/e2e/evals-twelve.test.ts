import { expect, test } from 'vitest'
import { bash, sleep, until, useRealStack, write } from './support.ts'
import {
  comparableRow,
  endedEval,
  evalAttempts,
  evalBody,
  type EvalCaseInput,
  evalEvents,
  startEval,
} from './evals-kit.ts'

const stack = useRealStack('workerd', () => ({}))

const opencode = { provider: 'opencode', model: 'scripted', workers: 4, timeout_seconds: 60 }
const targets = [
  { ...opencode, name: 'oc' },
  { ...opencode, name: 'short', timeout_seconds: 4 },
  { ...opencode, name: 'unlogged', log_dir: 'given.txt/logs' },
  { ...opencode, name: 'nowhere', sandbox: 'e2b' },
]

/** Each looks whether another has left something where it works. */
const plain = (id: string): EvalCaseInput => ({
  id,
  target: 'oc',
  steps: [
    bash(`ls; echo ${id} > mine.txt`),
    write('made.txt', `${id}\n`),
    bash('pwd'),
    { text: `It is done: ${id}.` },
  ],
  files: [{ path: 'given.txt', text: id }],
  evaluators: [{ name: 'mine', type: 'file_matches', path: 'mine.txt', equals: `${id}\n` }],
})

const cases: EvalCaseInput[] = [
  ...['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map(plain),
  {
    ...plain('blocked'),
    steps: [bash('sudo ls'), { text: 'It is done.' }],
  },
  { ...plain('nowhere'), target: 'nowhere' },
  { ...plain('slow'), target: 'short', steps: [bash('sleep 30'), { text: 'It is done.' }] },
  { ...plain('unlogged'), target: 'unlogged' },
]
const names = targets.map(({ name }) => name)
const body = (run: object = {}) =>
  evalBody(cases, targets, { runTargets: names, workers: 4, ...run })

test('[EVR1] [EVR4] [EVR13] [EVR17] [EVR18] [EVR22] twelve cases on four workers: four of them fail each in its own way, and a second run is equal', async () => {
  const runs = [await startEval(stack(), body({ verbose: true }))]
  await endedEval(stack(), runs[0]!.id, 300_000)
  runs.push(await startEval(stack(), body()))
  await endedEval(stack(), runs[1]!.id, 300_000)
  const [first, second] = await Promise.all(runs.map(({ id }) => evalAttempts(stack(), id)))
  const byId = new Map(first!.map((attempt) => [attempt.evalCaseId, attempt]))
  for (const id of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'unlogged'])
    expect([id, byId.get(id)?.result?.score, byId.get(id)?.result?.error]).toEqual([
      id,
      1,
      undefined,
    ])
  expect(byId.get('blocked')?.result?.error).toMatch(
    /^OpenCode permission was blocked: .*sudo ls.* permissions of target 'oc' to once or always/,
  )
  expect(byId.get('slow')?.result?.error).toBe('OpenCode timed out after 4s')
  expect(byId.get('nowhere')?.result?.error).toMatch(/provider "e2b"/)
  // No directory was seen by two attempts: each found its own file and the settings of its OpenCode.
  const worked = first!.filter(({ result }) => result?.score === 1)
  for (const { result } of worked)
    expect([result?.eval_id, String(result?.tool_calls?.[0]?.output).trim()]).toEqual([
      result?.eval_id,
      'given.txt\nopencode.json',
    ])
  const sessions = first!.flatMap(({ sessionId }) => sessionId ?? [])
  expect(new Set(sessions).size).toBe(sessions.length)
  const warned = (await evalEvents(stack(), runs[0]!.id)).filter(
    ({ kind }) => kind === 'attempt.warned',
  )
  const unlogged = warned.filter(({ data }) => String(data['message']).includes('the log'))
  expect(unlogged.map(({ data }) => data['evalCaseId'])).toEqual(['unlogged'])
  const quiet = (await evalEvents(stack(), runs[1]!.id)).filter(
    ({ kind }) => kind === 'attempt.warned',
  )
  expect(quiet).toEqual([])
  expect(second!.map(comparableRow)).toEqual(first!.map(comparableRow))
})

test('[EVR6] the control plane is killed over and over: every case has one result, and none is begun after it', async () => {
  const run = await startEval(stack(), evalBody(cases.slice(0, 6), [targets[0]!]))
  let seed = 20_261_118
  for (let kills = 0; kills < 4; kills += 1) {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    await sleep(1500 + (seed % 4000))
    stack().worker.kill('SIGKILL')
    await until('the control plane is dead', 10_000, () => !stack().worker.running())
    await stack().worker.start()
  }
  await endedEval(stack(), run.id, 300_000)
  const attempts = await evalAttempts(stack(), run.id)
  expect(attempts.map(({ result }) => result?.eval_id)).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
  const events = await evalEvents(stack(), run.id)
  for (const { n } of attempts) {
    const own = events.filter(({ data }) => data['n'] === n).map(({ kind }) => kind)
    expect(own.filter((kind) => kind === 'attempt.ended')).toHaveLength(1)
    expect(own.at(-1)).toBe('attempt.ended')
  }
})
