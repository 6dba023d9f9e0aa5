import { expect, test } from 'vitest'
import type { ScriptStep } from '../../local/model/scripted-model.ts'
import { api, marked, requestsOf, toolsShown } from './contract-kit.ts'
import { bash, promptText, useBox, useRealStack } from './support.ts'

const stack = useRealStack('workerd')

const inline = (value: string) => ({ kind: 'inline', value })
/** What OpenCode would put in for it is in its environment. */
const leadWords =
  'You are the lead of the amber team. {env:PROLIFERATE_SESSION_ID} {file:/etc/hostname}'
const box = useBox(stack, async () => {
  const put = async (body: object) => {
    const answer = await api(stack(), 'PUT', '/v1/agents', { project: 'amber', ...body })
    expect(answer.status, answer.text).toBe(200)
  }
  await put({ name: 'lead', instructions: inline(leadWords) })
  const sub = { mode: 'subagent', parent: 'lead' }
  const permissions = { shell: 'deny', git: 'deny', edit: 'ask' }
  const instructions = inline('You are the amber helper.')
  await put({ ...sub, name: 'helper', description: 'Helps', permissions, instructions })
  return { project: 'amber', agent: { name: 'lead' } }
})

const send = (to: string, prompt: string): ScriptStep => ({
  calls: [{ name: 'task', args: { description: 'Sub', prompt, subagent_type: to } }],
})
const systemOf = (request: ReturnType<typeof requestsOf>[number] | undefined): string =>
  JSON.stringify(request?.messages.filter(({ role }) => role === 'system'))

test('[AGT12] [AGT15] [AGT16] the model is told what the registry says, as agent and as subagent, and sends nobody else', async () => {
  const child = `child-amber ${promptText([{ text: 'helped' }])}`
  const steps = [
    send('helper', child),
    send('general', 'anything'),
    bash('echo did it'),
    { text: 'led' },
  ]
  const turn = await box().run(marked('lead-amber', steps))
  expect(turn).toMatchObject({ state: 'completed', text: 'led' })

  const [first] = requestsOf(stack(), 'lead-amber')
  // As it was written: nothing of the environment or of a file was put in.
  expect(systemOf(first)).toContain(leadWords)
  expect(toolsShown(first)).toEqual(expect.arrayContaining(['bash', 'task']))
  const helped = requestsOf(stack(), 'child-amber').find(
    (request) => !systemOf(request).includes('lead of the amber'),
  )
  expect(systemOf(helped)).toContain('You are the amber helper.')
  expect(toolsShown(helped)).not.toContain('bash')
  expect(toolsShown(helped)).not.toContain('task')

  const answers = JSON.stringify(requestsOf(stack(), 'lead-amber').at(-1)?.messages)
  expect(answers).toContain('helped')
  expect(answers).toMatch(/general/)
  const decided = await box().eventsOf('gate.decided')
  expect(decided.map(({ tool, decision }) => `${tool} ${decision}`)).toEqual(
    expect.arrayContaining(['task allow', 'bash allow']),
  )
  expect(await box().eventsOf('gate.bypassed')).toEqual([])
})
