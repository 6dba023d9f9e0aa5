import { afterAll, expect, onTestFinished, test } from 'vitest'
import { findProcesses, sandboxMark, signalProcess } from '../../local/processes/processes.ts'
import { TestAgent } from '../support/agent.ts'
import { request } from '../support/stack.ts'
import { callsOf, tool } from './contract-kit.ts'
import { type Holder, nextPrompt, readyAs, startHolder } from './recovery-kit.ts'
import { bash, Box, startTap, type Tap, until, useRealStack, write } from './support.ts'

let tap: Tap
let holder: Holder
const stack = useRealStack('workerd', async () => {
  tap = await startTap(() => stack().url)
  holder = await startHolder()
  return { env: { GANTRY_PUBLIC_URL: tap.url, GANTRY_CRASH_URL: holder.url } }
})
afterAll(() => {
  tap?.close()
  holder?.close()
})

const signalAll = (pids: readonly number[], signal: NodeJS.Signals) =>
  pids.forEach((pid) => signalProcess(pid, signal))

/** What people can see of the session; where its next sandbox stands is not the old one's doing. */
async function everything(box: Box) {
  const events = (await box.events()).filter(({ kind }) => kind !== 'sandbox.changed')
  const { turn, queuedTurns, sandbox } = await box.view()
  const artifacts = (await box.get('/artifacts')).json as unknown
  const calls = await callsOf(box)
  return { events, turn, queuedTurns, generation: sandbox.generation, artifacts, calls }
}

/** Everything that a sandbox can ask, with the old one's own token. */
async function replay(box: Box): Promise<void> {
  const { url } = stack()
  const token = /^authorization: Bearer (\S+)/im.exec(tap.sent())?.[1] ?? ''
  const [{ toolCallId, args } = { toolCallId: '', args: {} }] = await callsOf(box)
  const doors: [method: string, path: string, body?: unknown][] = [
    ['GET', `/sandbox/${box.id}/manifest`],
    ['GET', `/sandbox/${box.id}/env`],
    ['PUT', `/sandbox/${box.id}/artifacts`, 'late'],
    ['POST', `/proliferate/${box.id}/tools/verify`, { tool_call_id: toolCallId, args }],
    ['POST', `/proliferate/${box.id}/tools/verify`, { tool_call_id: 'another', args }],
    ['POST', '/llm/litellm/chat/completions', { messages: [] }],
  ]
  for (const [method, path, body] of doors) {
    const answer = await request(method, `${url}${path}`, token, body)
    const { error } = answer.json as { error: { code: string } }
    expect([path, answer.status, error.code]).toEqual([path, 403, 'old_generation'])
  }
  expect(await TestAgent.dial(url, box.id, token).opened()).toBe(false)
}

test('[LIFE15] [BOX4] a paused sandbox wakes after it was replaced and goes on with its turn: all of it is refused, nothing changes, its processes end', async () => {
  const box = await Box.open(stack())
  holder.hold()
  const calls = [
    ...(bash('sleep 2; echo late > late.txt').calls ?? []),
    { name: 'verify', args: {} },
  ]
  const turn = await box.prompt([
    write('.proliferate/.verification/proof.txt', 'proof\n'),
    { calls },
    tool('verify', { folder: 'other' }),
    { text: 'Too late.' },
  ])
  await until('a call is under way', 30_000, () => holder.held() > 0)
  const pids = box.processes()
  expect(pids.length).toBeGreaterThan(1)
  signalAll(pids, 'SIGSTOP')
  // Nobody can end it, as with a machine that its provider has lost from sight.
  const hostPid = stack().sandboxHost?.pid() ?? 0
  signalProcess(hostPid, 'SIGSTOP')
  onTestFinished(() => signalAll([hostPid, ...pids], 'SIGCONT'))
  // Before it could be told: it finds out by itself.
  tap.cut('')
  expect((await box.post('/replace', { reason: 'It hangs' })).status).toBe(200)
  holder.letGo()
  expect(await box.ended(turn)).toMatchObject({ state: 'interrupted' })
  await until('the call is settled', 15_000, async () => {
    return (await callsOf(box)).every(({ state }) => state === 'settled')
  })
  const before = await everything(box)
  expect(before).toMatchObject({ generation: 2, turn: null, artifacts: { items: [{}] } })

  const asked = () => ['/link', '/tools/verify'].map((path) => tap.asked(path))
  const [links = 0, verifies = 0] = asked()
  signalAll(pids, 'SIGCONT')
  await until('it has ended by itself', 60_000, () => {
    return findProcesses({ marks: [`${sandboxMark}=${box.id}.1`] }).length === 0
  })
  const [linksAfter, verifiesAfter] = asked()
  expect(linksAfter).toBeGreaterThan(links)
  expect(verifiesAfter).toBeGreaterThan(verifies)
  expect(await everything(box)).toEqual(before)
  for (const _ of [1, 2]) await replay(box)
  expect(await everything(box)).toEqual(before)

  signalProcess(hostPid, 'SIGCONT')
  await readyAs(box, 2)
  expect(await nextPrompt(stack(), box)).toContain('The last turn was interrupted')
})
