import { expect, test } from 'vitest'
import { bash, useRealStack, write } from './support.ts'
import { endedEval, evalAttempts, evalBody, evalEvents, startEval } from './evals-kit.ts'
import { request } from '../support/stack.ts'

const stack = useRealStack('workerd')

const opencode = { name: 'oc', provider: 'opencode', model: 'scripted', workers: 2 }
const approving = { ...opencode, name: 'approving', permissions: 'once' }
/** The policy has nothing against it: OpenCode itself asks. */
const readSettings = { calls: [{ name: 'read', args: { filePath: 'settings.env.txt' } }] }
const settings = { path: 'settings.env.txt', text: 'A=1\n' }

test('[EVR12] [EVR14] [EVR16] [EVR19] [EVR22] a real OpenCode works on one case, and is blocked in another', async () => {
  const body = evalBody(
    [
      {
        id: 'works',
        target: 'approving',
        steps: [
          bash('cat given.txt > copied.txt'),
          write('made.txt', 'made\n'),
          bash('ls .agentv/logs/opencode; grep -c tool.started .agentv/logs/opencode/*.log'),
          readSettings,
          { text: 'It is done.' },
        ],
        files: [{ path: 'given.txt', text: 'given\n' }, settings],
        evaluators: [
          { name: 'copied', type: 'file_matches', path: 'copied.txt', equals: 'given\n' },
          { name: 'scope', type: 'diff_scope', allow: ['copied.txt', 'made.txt'] },
          {
            ...{ name: 'calls', type: 'tool_trajectory', mode: 'in_order' },
            expected: [{ tool: 'bash' }, { tool: 'write', args: { filePath: 'made.txt' } }],
          },
        ],
      },
      {
        id: 'blocked',
        target: 'oc',
        steps: [readSettings, { text: 'It is done.' }],
        files: [settings],
      },
    ],
    [opencode, approving],
    { runTargets: ['oc', 'approving'] },
  )
  const run = await startEval(stack(), body)
  await endedEval(stack(), run.id)
  const attempts = await evalAttempts(stack(), run.id)
  const works = attempts.find(({ evalCaseId }) => evalCaseId === 'works')
  const blocked = attempts.find(({ evalCaseId }) => evalCaseId === 'blocked')
  expect(works?.result?.error).toBeUndefined()
  expect(works?.result).toMatchObject({ score: 1, candidate_answer: 'It is done.' })
  // While it worked, its log had its tool calls so far.
  const [, , looked, read] = works?.result?.tool_calls ?? []
  expect(String(looked?.output)).toMatch(/_approving_works_[0-9a-f]{8}\.log\n[1-9]/)
  expect(works?.sessionId).not.toBe(blocked?.sessionId)
  expect(blocked?.result?.error).toMatch(/^OpenCode permission was blocked: .*/)
  expect(String(read?.output)).toContain('A=1')
  for (const [attempt, state] of [
    [works, 'approved'],
    [blocked, 'rejected'],
  ] as const) {
    const at = `${stack().url}/v1/sessions/${attempt?.sessionId}/approvals`
    const { json } = await request('GET', at, stack().adminKey)
    expect((json as { items: object[] }).items).toMatchObject([
      { kind: 'eval', state, operation: { tool: 'permission', input: { permission: 'read' } } },
    ])
  }
  const published = (await evalEvents(stack(), run.id)).filter(
    ({ kind }) => kind === 'log.published',
  )
  expect(published).toHaveLength(2)
})
