import { connectInnerPort } from '../../sandbox-agent/enclosure/inner-ports.ts'
import { Client, opencodeClientText } from '../../sandbox-agent/opencode/client.ts'
import { isRoot } from '../support/needs.ts'
import { appendFileSync, chmodSync, existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import {
  bash,
  Box,
  environOf,
  lastRequest,
  portsOf,
  until,
  useBox,
  useRealStack,
  write,
} from './support.ts'
import { isLong, longTest, someOf } from '../support/long.ts'

const stack = useRealStack('workerd')
const listed = useBox(stack, () => ({ gate: { deny: ['write'], ask: ['bash'] } }))
const patching = useBox(stack, () => ({ model: 'litellm/gpt-5.2', gate: { ask: ['apply_patch'] } }))

/** What the model was told after its tool had been asked for. */
const toolAnswers = (words: string): string =>
  JSON.stringify(
    lastRequest(stack(), (messages) => JSON.stringify(messages).includes(words)).filter(
      (message) => message.role === 'tool',
    ),
  )

test('[GATE2] [GATE3] [GATE8] deny and ask lists: the model learns the reason, and what a person allows runs', async () => {
  const box = listed()
  const turn = await box.prompt([
    write('denied.txt', 'no'),
    bash('echo first > first.txt'),
    bash('echo second > second.txt'),
    { text: 'I went on.' },
  ])
  const first = await box.parked()
  const input = { command: 'echo first > first.txt' }
  expect(first).toMatchObject({ operation: { tool: 'bash', input } })
  expect((await box.answer(first, 'deny', 'not that one')).status).toBe(200)
  const second = await until('the second question', 30_000, async () => {
    const ask = await box.parked()
    return ask.id !== first.id && ask
  })
  expect((await box.answer(second, 'allow')).status).toBe(200)
  expect((await box.answer(second, 'allow')).status).toBe(409)
  expect(await box.ended(turn)).toMatchObject({ state: 'completed', text: 'I went on.' })

  expect(existsSync(box.folder('workspace/denied.txt'))).toBe(false)
  expect(existsSync(box.folder('workspace/first.txt'))).toBe(false)
  expect(readFileSync(box.folder('workspace/second.txt'), 'utf8')).toBe('second\n')
  const told = toolAnswers('denied.txt')
  expect(told).toContain(`\\"write\\" is on the session's deny list`)
  expect(told).toContain('not that one')
  const decisions = await box.eventsOf('gate.decided')
  expect(decisions.map(({ tool, decision }) => `${tool} ${decision}`)).toEqual([
    'write deny',
    'bash deny',
    'bash allow',
  ])
  expect(decisions[1]).toMatchObject({
    reason: 'not that one',
    actor: expect.stringMatching(/^key_/),
  })
  expect(decisions[2]?.waitedMs).toBeGreaterThan(0)
  expect(await box.eventsOf('gate.bypassed')).toEqual([])
})

if (isLong)
  test('[GATE2] nobody answers: the deadline denies and the turn goes on', async () => {
    const box = await Box.open(stack(), { gate: { ask: ['bash'], askTimeoutSeconds: 1 } })
    const turn = await box.run([bash('echo late > late.txt'), { text: 'Then not.' }])
    expect(turn).toMatchObject({ state: 'completed', text: 'Then not.' })
    expect(existsSync(box.folder('workspace/late.txt'))).toBe(false)
    expect(await box.eventsOf('gate.decided')).toMatchObject([
      { decision: 'deny', actor: 'deadline', reason: 'Nobody answered in time' },
    ])
    expect(toolAnswers('late.txt')).toContain('Nobody answered in time')
  })

describe('[GATE4] [TURN8] abort while a question is parked, then a late allow: nothing runs', () => {
  const patch = '*** Begin Patch\n*** Add File: ran.txt\n+ran\n*** End Patch'
  const asking = [
    { tool: 'bash', boxOf: listed, args: { command: 'echo ran > ran.txt' } },
    { tool: 'apply_patch', boxOf: patching, args: { patchText: patch } },
  ]
  test.each(someOf(asking))('$tool', async ({ tool, boxOf, args }) => {
    const box = boxOf()
    const turn = await box.prompt([{ calls: [{ name: tool, args }] }, { text: 'Done.' }])
    const ask = await box.parked()
    expect(ask).toMatchObject({ operation: { tool, input: args } })
    const [abort, late] = await Promise.all([
      box.post('/abort'),
      // Sent so that it arrives right behind the abort.
      box.post('/abort').then(() => box.answer(ask, 'allow')),
    ])
    expect(abort.status).toBe(200)
    expect(late.status).toBe(409)
    expect(await box.ended(turn)).toMatchObject({ state: 'aborted' })
    expect((await box.answer(ask, 'allow')).status).toBe(409)

    // A whole turn later there is still no trace of it, and the same call runs once it is allowed.
    const next = await box.prompt([{ calls: [{ name: tool, args }] }, { text: 'Done.' }])
    const again = await box.parked()
    expect(existsSync(box.folder('workspace/ran.txt'))).toBe(false)
    expect((await box.answer(again, 'allow')).status).toBe(200)
    expect(await box.ended(next)).toMatchObject({ state: 'completed' })
    expect(readFileSync(box.folder('workspace/ran.txt'), 'utf8')).toBe('ran\n')
    expect(await box.eventsOf('gate.bypassed')).toEqual([])
  })
})

test('[POL15] [GATE13] a patch is held to every file that OpenCode would write, however its headings are spelled', async () => {
  const box = patching()
  const outside = box.folder('by-a-patch.txt')
  const files = ['*** Add File: fine.txt', '+x', `*** Add File:${outside}`, '+x']
  const patchText = ['*** Begin Patch', ...files, '*** End Patch'].join('\n')
  const turn = await box.prompt([
    { calls: [{ name: 'apply_patch', args: { patchText } }] },
    { text: 'It did not go through.' },
  ])
  expect(await box.ended(turn)).toMatchObject({ state: 'completed' })
  const [failed] = await box.eventsIn(turn, 'tool.failed')
  expect(failed?.error).toContain(`Outside the workspace: ${outside}`)
  expect(failed?.error).toContain('Do it another way')
  expect([outside, box.folder('workspace/fine.txt')].map((path) => existsSync(path))).toEqual([
    false,
    false,
  ])
})

test('[BOX5] [GATE6] a gate that was tampered with between turns is restored and reported before the next one', async () => {
  const box = listed()
  expect(await box.run('Hello')).toMatchObject({ state: 'completed' })
  const plugin = box.folder('config/plugin/proliferate.mjs')
  const before = readFileSync(plugin, 'utf8')
  const opencode = await box.opencodePid()
  chmodSync(plugin, 0o644)
  appendFileSync(plugin, '\nexport const more = async () => ({})\n')
  const turn = await box.run([write('tampered.txt', 'ran'), { text: 'Tried.' }])
  expect(turn).toMatchObject({ state: 'completed', text: 'Tried.' })
  expect(existsSync(box.folder('workspace/tampered.txt'))).toBe(false)
  expect(readFileSync(plugin, 'utf8')).toBe(before)
  expect(await box.opencodePid()).not.toBe(opencode)
  const applied = (await box.eventsOf('manifest.applied')).at(-1)
  expect(applied?.files).toContainEqual(
    expect.objectContaining({ path: plugin, action: 'repaired' }),
  )
  expect(await box.eventsOf('agent.notice')).toMatchObject([
    { message: expect.stringContaining('restored') },
  ])
})

/** As somebody who knows the password of OpenCode: its shell route runs commands without asking any plugin. */
async function intruderOf(box: Box) {
  const opencode = await box.opencodePid()
  const password = /OPENCODE_SERVER_PASSWORD=([^\0]+)/.exec(environOf(opencode))?.[1] as string
  const authorization = `Basic ${Buffer.from(`opencode:${password}`).toString('base64')}`
  const post = async (path: string, body: object) => {
    const port = portsOf([opencode])[0] ?? 0
    const client = new Client(() => connectInnerPort(opencode, !isRoot, port, { ...process.env }))
    const response = await client.send(path, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    })
    expect(response.statusCode).toBe(200)
    return JSON.parse(await opencodeClientText(response)) as { id: string }
  }
  /** The session in which the command has run. */
  return async (session: object, folder = '') => {
    const query = folder === '' ? '' : `?directory=${encodeURIComponent(folder)}`
    const { id } = await post(`/session${query}`, session)
    const command = { agent: 'build', command: 'echo bypassed' }
    await post(`/session/${id}/shell${query}`, command)
    return id
  }
}

test.each(someOf(['below the turn', 'beside the turn', 'of another folder'] as const))(
  '[GATE6] [GATE16] a tool that runs without a decision in a session %s is reported, and the turn is aborted',
  async (where) => {
    const box = listed()
    const turn = await box.prompt([bash('sleep 617'), { text: 'Never.' }])
    await box.answer(await box.parked(), 'allow')
    const { sessionId } = await box.seen('tool.started', ({ turnId }) => turnId === turn.id)
    const run = await intruderOf(box)
    const folder = where === 'of another folder' ? box.folder('home') : ''
    const id = await run(where === 'below the turn' ? { parentID: sessionId } : {}, folder)
    const bypassed = await box.seen('gate.bypassed', ({ turnId }) => turnId === turn.id)
    expect(bypassed).toMatchObject({ tool: 'bash', turnId: turn.id, sessionId: id })
    expect(await box.ended(turn)).toMatchObject({
      state: 'aborted',
      reason: expect.stringContaining('without'),
    })
    const next = await box.prompt([bash('echo next > next.txt'), { text: 'Next.' }])
    await box.answer(await box.parked(), 'allow')
    expect(await box.ended(next)).toMatchObject({ state: 'completed', text: 'Next.' })
    expect(existsSync(box.folder('workspace/next.txt'))).toBe(true)
  },
)

longTest(
  '[GATE16] between turns any tool that runs is reported, OpenCode is started anew, and work goes on',
  async () => {
    const box = listed()
    const before = await box.prompt([{ text: 'Nothing to do.' }])
    await box.ended(before)
    const opencode = await box.opencodePid()
    const id = await (await intruderOf(box))({})
    const bypassed = await box.seen('gate.bypassed', ({ sessionId }) => sessionId === id)
    expect(bypassed).toMatchObject({ tool: 'bash', turnId: before.id })
    await until('the next OpenCode', 60_000, async () => (await box.opencodePid()) !== opencode)
    const next = await box.prompt([{ text: 'Here again.' }])
    expect(await box.ended(next)).toMatchObject({ state: 'completed', text: 'Here again.' })
  },
)
