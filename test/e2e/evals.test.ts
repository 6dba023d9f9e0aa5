import { expect, test } from 'vitest'
import { bash, useRealStack, write } from './support.ts'
import { endedEval, evalAttempts, evalBody, evalEvents, startEval } from './evals-kit.ts'
import { request } from '../support/stack.ts'

const stack = useRealStack('workerd')

const opencode = { name: 'oc', provider: 'opencode', model: 'scripted', workers: 2 }

test('[EVR12] [EVR14] [EVR16] [EVR19] [EVR22] a real OpenCode works on one case, and is blocked in another', async () => {
  const body = evalBody(
    [
      {
        id: 'works',
        steps: [
          bash('cat given.txt > copied.txt'),
          write('made.txt', 'made\n'),
          bash('ls .agentv/logs/opencode; grep -c tool.started .agentv/logs/opencode/*.log'),
          { text: 'It is done.' },
        ],
        files: [{ path: 'given.txt', text: 'given\n' }],
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
        steps: [
          { calls: [{ name: 'read', args: { filePath: 'settings.env' } }] },
          { text: 'It is done.' },
        ],
        files: [{ path: 'settings.env', text: 'A=1\n' }],
      },
    ],
    [opencode],
  )
  const run = await startEval(stack(), body)
  await endedEval(stack(), run.id)
  const [works, blocked] = await evalAttempts(stack(), run.id)
  expect(works?.result?.error).toBeUndefined()
  expect(works?.result).toMatchObject({ score: 1, candidate_answer: 'It is done.' })
  // While it worked, its log had its tool calls so far.
  const [, , looked] = works?.result?.tool_calls ?? []
  expect(String(looked?.output)).toMatch(/_oc_works_[0-9a-f]{8}\.log\n[1-9]/)
  expect(works?.sessionId).not.toBe(blocked?.sessionId)
  expect(blocked?.result?.error).toMatch(/^OpenCode permission was blocked: .*/)
  const at = `${stack().url}/v1/sessions/${blocked?.sessionId}/approvals`
  const { json } = await request('GET', at, stack().adminKey)
  expect((json as { items: object[] }).items).toMatchObject([{ kind: 'eval', state: 'rejected' }])
  const published = (await evalEvents(stack(), run.id)).filter(
    ({ kind }) => kind === 'log.published',
  )
  expect(published).toHaveLength(2)
})
