import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Turn } from '../../src/contract/turn.ts'
import { mintToken, TestAgent } from '../support/agent.ts'
import { isLong } from '../support/long.ts'
import { request } from '../support/stack.ts'
import {
  argvOf,
  bash,
  type Box,
  lastRequest,
  leaveChildren,
  until,
  useBox,
  useRealStack,
  write,
} from './support.ts'

// A turn that stands still is noticed sooner than by default.
const patience = { lookEveryMs: 500, probeMs: 8000 }
const stack = useRealStack('workerd', () => ({ hostOptions: { patience } }))
const only = useBox(stack, () => ({ replacement: 'manual' }))

test('[TURN1] [TURN2] [TURN3] [TURN4] [TURN5] prompts queue, keys give one turn, a steer joins the running turn', async () => {
  const box = only()
  const slow = [bash('while [ ! -e go ]; do sleep 0.05; done; echo a >> order.txt'), bash('true')]
  const first = await box.prompt([...slow, { text: 'First.' }])
  const second = await box.prompt([bash('echo b >> order.txt'), { text: 'Second.' }], { key: 'k' })
  const third = await box.prompt([bash('echo c >> order.txt'), { text: 'Third.' }])
  expect([first, second, third].map((turn) => turn.position)).toEqual([null, 1, 2])
  const again = await box.prompt([bash('echo b >> order.txt'), { text: 'Second.' }], { key: 'k' })
  expect(again.id).toBe(second.id)
  const other = await box.post('/prompts', { text: 'Other' }, { 'idempotency-key': 'k' })
  expect(other.status).toBe(409)

  await box.seen('tool.started')
  const steered = await box.prompt([bash('echo steered >> order.txt'), { text: 'As you wish.' }], {
    steer: true,
  })
  expect(steered.id).toBe(first.id)
  writeFileSync(box.folder('workspace/go'), '')
  const ends = [await box.ended(first), await box.ended(second), await box.ended(third)]
  expect(ends.map((turn) => [turn.state, turn.text])).toEqual([
    ['completed', 'As you wish.'],
    ['completed', 'Second.'],
    ['completed', 'Third.'],
  ])
  expect(readFileSync(box.folder('workspace/order.txt'), 'utf8')).toBe('a\nsteered\nb\nc\n')
  const starts = await box.eventsOf('turn.started')
  expect(starts.map(({ turnId }) => turnId)).toEqual([first.id, second.id, third.id])
  const { items } = (await box.get('/turns')).json as { items: Turn[] }
  expect(items).toHaveLength(3)
  // However often its command was delivered, each prompt is in the conversation once.
  const texts = lastRequest(stack(), (messages) => JSON.stringify(messages).includes('Third.'))
    .filter(({ role }) => role === 'user')
    .map(({ content }) => JSON.stringify(content))
  expect(texts.filter((text) => text.includes('echo b'))).toHaveLength(1)
})

test('[TURN8] [TURN12] [TURN14] abort in the middle of a tool ends the tool, and the next prompt works; in the long run also if OpenCode hangs', async () => {
  const box = only()
  const turn = await box.prompt([bash('echo begun > begun.txt; sleep 613; echo ran > ran.txt')])
  const queued = await box.prompt('Never')
  await until('the tool runs', 30_000, () => existsSync(box.folder('workspace/begun.txt')))
  const sleeping = () => box.processes().filter((pid) => argvOf(pid)[1] === '613')
  await until('the command sleeps', 10_000, () => sleeping().length === 1)
  expect((await box.post('/abort', { reason: 'wrong branch' })).status).toBe(200)
  expect(await box.ended(turn)).toMatchObject({ state: 'aborted', reason: 'wrong branch' })
  expect(await box.ended(queued)).toMatchObject({ state: 'aborted' })
  await until('the tool is gone', 10_000, () => sleeping().length === 0)
  expect(existsSync(box.folder('workspace/ran.txt'))).toBe(false)
  const ends = [
    ...(await box.eventsIn(turn, 'tool.failed')),
    ...(await box.eventsIn(turn, 'tool.completed')),
  ]
  expect(ends).toMatchObject([{ tool: 'bash' }])
  expect(await box.bash('echo next')).toBe('next\n')
  if (isLong) await hangs(box)
})

/** Aborted, and then by itself: OpenCode stands still, and yet each turn ends and the next one works. */
async function hangs(box: Box): Promise<void> {
  for (const [reason, end] of [
    ['enough', { state: 'aborted', reason: 'enough' }],
    [null, { state: 'interrupted', reason: expect.stringContaining('has not answered for') }],
  ] as const) {
    const turn = await box.prompt([bash(`echo ${end.state} > ${end.state}.txt; sleep 617`)])
    const begun = () => existsSync(box.folder(`workspace/${end.state}.txt`))
    await until('the tool runs', 30_000, begun)
    const opencode = await box.opencodePid()
    process.kill(opencode, 'SIGSTOP')
    if (reason !== null) await box.post('/abort', { reason })
    const next = box.prompt([{ text: `After ${end.state}.` }])
    expect(await box.ended(turn)).toMatchObject(end)
    expect(await box.ended(await next)).toMatchObject({ text: `After ${end.state}.` })
    expect(await box.opencodePid()).not.toBe(opencode)
    expect(box.processes().filter((pid) => argvOf(pid)[1] === '617')).toEqual([])
    const told = lastRequest(stack(), (messages) =>
      JSON.stringify(messages).includes(`After ${end.state}.`),
    )
    expect(JSON.stringify(told.at(-1))).toContain('OpenCode was ended and restarted')
  }
}

describe('a model that fails', () => {
  test('[TURN6] 500 and 429 are tried again by OpenCode; unparsable arguments become an answer to the model', async () => {
    const box = only()
    const turn = await box.run([
      { httpError: { status: 500, times: 1 }, ...write('after-500.txt', 'x') },
      { httpError: { status: 429, times: 1, retryAfter: 1 }, ...write('after-429.txt', 'x') },
      { brokenJson: true, calls: [{ name: 'write', args: {} }] },
      { text: 'In the end.' },
    ])
    expect(turn).toMatchObject({ state: 'completed', text: 'In the end.' })
    for (const name of ['after-500.txt', 'after-429.txt'])
      expect(existsSync(box.folder(`workspace/${name}`))).toBe(true)
    expect(await box.eventsOf('gate.bypassed')).toEqual([])
  })

  test('[TURN6] a refusal and a connection that breaks off end the turn honestly, and the next one works', async () => {
    const box = only()
    const refused = await box.run([{ httpError: { status: 400 } }])
    expect(refused).toMatchObject({ state: 'failed', reason: expect.stringContaining('Scripted') })
    const text = 'A long answer that is cut off in the middle of it. '.repeat(20)
    const dropped = await box.run([{ text, dropConnection: 1 }])
    if (dropped.state === 'completed') expect(dropped.text).toBe(text)
    else expect(dropped).toMatchObject({ state: 'failed', reason: expect.any(String) })
    expect(await box.bash('echo next')).toBe('next\n')
  })

  test('[TURN8] a model that asks to be tried again in an hour does not hold the session: abort works', async () => {
    const box = only()
    const turn = await box.prompt([{ httpError: { status: 429, retryAfter: 3600 } }])
    await until('the model was asked', 30_000, () =>
      stack()
        .model?.log()
        .some(({ body }) => JSON.stringify(body.messages).includes('3600')),
    )
    expect((await box.view()).turn).toBe(turn.id)
    expect((await box.post('/abort')).status).toBe(200)
    expect(await box.ended(turn, 30_000)).toMatchObject({ state: 'aborted' })
    expect(await box.bash('echo next')).toBe('next\n')
  })
})

test('[TURN9] [TURN6] OpenCode killed in mid-turn: interrupted, restarted, nothing sent again, and the model is told', async () => {
  const box = only()
  const turn = await box.prompt([
    bash('echo begun >> killed.txt; setsid sleep 614 >/dev/null 2>&1 & sleep 615'),
    { text: 'Never.' },
  ])
  await until('the tool runs', 30_000, () => existsSync(box.folder('workspace/killed.txt')))
  const next = await box.prompt([{ text: 'I look around.' }])
  const opencode = await box.opencodePid()
  process.kill(opencode, 'SIGKILL')
  expect(await box.ended(turn)).toMatchObject({ state: 'interrupted', reason: expect.any(String) })
  expect(await box.ended(next)).toMatchObject({ state: 'completed', text: 'I look around.' })
  expect(readFileSync(box.folder('workspace/killed.txt'), 'utf8')).toBe('begun\n')
  expect(await box.opencodePid()).not.toBe(opencode)
  const left = box.processes().filter((pid) => ['614', '615'].includes(argvOf(pid)[1] ?? ''))
  expect(left).toEqual([])
  const conversation = lastRequest(stack(), (messages) =>
    JSON.stringify(messages).includes('I look around.'),
  )
  expect(JSON.stringify(conversation.at(-1))).toContain('OpenCode stopped unexpectedly')
  expect((await box.eventsOf('opencode.died')).at(-1)).toMatchObject({ signal: 'SIGKILL' })
  for (const each of [turn, next]) expect(await box.eventsIn(each, 'turn.ended')).toHaveLength(1)
  expect(await box.eventsIn(turn, 'tool.failed')).toHaveLength(1)
  // Told once: the prompt after it is without the notice.
  expect(await box.run([{ text: 'Third.' }])).toMatchObject({ state: 'completed' })
  const third = lastRequest(stack(), (messages) => JSON.stringify(messages).includes('Third.'))
  expect(JSON.stringify(third.at(-1))).not.toContain('OpenCode stopped unexpectedly')
})

test('[BOX3] [BOX4] [TURN10] [SES9] agent killed: lost with the reason, 409, replaced; the old generation is refused at every door', async () => {
  const box = only()
  const turn = await box.prompt([bash('sleep 616')])
  await box.seen('tool.started', ({ turnId }) => turnId === turn.id)
  const left = () => box.processes().length
  process.kill(box.agentPid(), 'SIGKILL')
  const sandbox = await until('the sandbox is lost', 30_000, async () => {
    const view = await box.view()
    return view.sandbox.state === 'lost' && view.sandbox
  })
  expect(sandbox.reason).toContain('SIGKILL')
  expect(await box.ended(turn)).toMatchObject({ state: 'interrupted' })
  await until('nothing of it is left', 10_000, () => left() === 0)
  const refused = await box.post('/prompts', { text: 'Hello' })
  expect(refused.status).toBe(409)
  expect(refused.text).toContain('/replace')

  expect((await box.post('/replace', { reason: 'it died' })).status).toBe(200)
  await box.ready()
  expect(box.generation).toBe(2)
  expect(await box.bash('echo second generation')).toBe('second generation\n')

  const token = (generation: number) =>
    mintToken(stack().env, {
      sessionId: box.id,
      organisationId: stack().organisationId,
      generation,
    })
  const old = await token(1)
  // What the turn has changed is collected a moment after its end.
  const events = async () => (await box.events()).filter(({ kind }) => kind !== 'changes.collected')
  const before = await events()
  const doors: [string, string, unknown?][] = [
    ['GET', `/sandbox/${box.id}/manifest`],
    ['PUT', `/sandbox/${box.id}/artifacts`, 'bytes'],
    ['POST', `/proliferate/${box.id}/tools/verify`, { tool_call_id: 'old', args: {} }],
    ['POST', '/llm/litellm/chat/completions', { model: 'scripted', messages: [] }],
    ['GET', '/llm/litellm/models'],
  ]
  for (const [method, path, body] of doors) {
    const answer = await request(method, `${stack().url}${path}`, old, body)
    expect([path, answer.status]).toEqual([path, 403])
  }
  const agent = TestAgent.dial(stack().url, box.id, old)
  expect(await agent.opened()).toBe(false)
  expect(await events()).toEqual(before)
  expect((await box.view()).sandbox).toMatchObject({ state: 'ready', generation: 2 })
  const current = await request('GET', `${stack().url}/sandbox/${box.id}/manifest`, await token(2))
  expect(current.status).toBe(200)
})

test('[BOX7] children that left their process group end with their session', async () => {
  const box = only()
  const left = await leaveChildren(box)
  expect((await box.post('/close')).status).toBe(200)
  await until('the children are gone', 15_000, () => left().length === 0)
  await until('the closed session has no process', 15_000, () => box.processes().length === 0)
})
