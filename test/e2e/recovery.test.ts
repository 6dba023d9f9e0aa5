import { existsSync, readdirSync } from 'node:fs'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { signalProcess } from '../../local/processes/processes.ts'
import { callsOf, snapshotFolder } from './contract-kit.ts'
import {
  creatingBox,
  deaths,
  expectGone,
  findAgent,
  findTaker,
  type Holder,
  nextPrompt,
  type Phase,
  phases,
  readyAs,
  type Scene,
  startHolder,
} from './recovery-kit.ts'
import { Box, until, useRealStack } from './support.ts'

let holder: Holder
const stack = useRealStack('workerd', async () => {
  holder = await startHolder()
  return { env: { GANTRY_CRASH_URL: holder.url } }
})
afterAll(() => holder?.close())

type Death = keyof typeof deaths | 'host'
type Scenes = Record<Phase, Scene>

/** One session at each point. Those that start come last: they do not wait. */
async function prepare(): Promise<Scenes> {
  holder.hold()
  const stage = { stack: stack(), holder }
  const { booting, creating, ...others } = phases
  const made = await Promise.all(
    Object.entries(others).map(async ([phase, begin]) => [phase, await begin(stage)] as const),
  )
  const all = [
    ...made,
    ['booting', await booting(stage)] as const,
    ['creating', await creating(stage)] as const,
  ]
  for (const [, { box }] of all) onTestFinished(async () => void (await box.post('/close')))
  return Object.fromEntries(all) as Scenes
}

async function strike(death: Death, scenes: Scenes): Promise<void> {
  if (death === 'host') return strikeHost()
  await Promise.all(Object.values(scenes).map(({ box }) => deaths[death](box)))
}

/** One more session has asked for its creation, and never gets an answer. */
async function strikeHost(): Promise<void> {
  const { sandboxHost } = stack()
  if (sandboxHost === null) throw new Error('There is no sandbox host')
  const box = await creatingBox(stack())
  sandboxHost.kill('SIGKILL')
  await sandboxHost.start()
  onTestFinished(async () => {
    await readyAs(box, 1)
    await box.post('/close')
    await expectGone(box, 1)
  }, 240_000)
}

const hasStarted = (phase: string) => phase !== 'creating' && phase !== 'booting'
/** Whether the sandbox outlives it: its agent starts OpenCode again. */
const survives = (phase: string, death: Death) => death === 'OpenCode' && hasStarted(phase)

async function expectRecovered(phase: string, { box, turn }: Scene, death: Death): Promise<void> {
  if (turn) expect(await box.ended(turn, 90_000)).toMatchObject({ state: 'interrupted' })
  const lives = survives(phase, death)
  await readyAs(box, lives ? 1 : 2)
  const told = await nextPrompt(stack(), box)
  if (!lives) return expectReplaced(phase, { box, turn }, told, death)
  expect(await box.eventsOf('sandbox.replaced')).toEqual([])
  expect(await box.eventsOf('opencode.died')).toHaveLength(1)
  expect(told).toContain('OpenCode stopped unexpectedly')
  expect(told.includes('during the last turn')).toBe(turn !== null)
}

/** People and the model hear what is lost: all files if they are gone, else nothing. Nobody is told if nothing had begun. */
async function expectReplaced(
  phase: string,
  { box, turn }: Scene,
  told: string,
  death: Death,
): Promise<void> {
  const worked = hasStarted(phase)
  const isGone = worked && death === 'folder'
  const lost = isGone ? 'All files' : 'Nothing of the workspace'
  expect(await box.eventsOf('sandbox.replaced')).toMatchObject([
    { from: 1, to: 2, lost: expect.stringContaining(lost), interruptedTurnId: turn?.id ?? null },
  ])
  expect(told.includes('the sandbox in which you worked has ended')).toBe(worked)
  expect(told.includes('All files')).toBe(isGone)
  expect(told.includes('The last turn was interrupted')).toBe(turn !== null)
  if (isGone) expect(existsSync(box.folder('workspace/kept.txt'))).toBe(false)
  await expectGone(box, 1)
}

/** Each effect happened once, whoever has died over it. */
async function expectOnce({ 'mid-tool': tool, 'mid-snapshot': snapshot }: Scenes): Promise<void> {
  const started = (await tool.box.eventsOf('tool.started')).filter(
    ({ turnId }) => turnId === tool.turn?.id,
  )
  expect(started.map((each) => each.tool).sort()).toEqual(['bash', 'verify', 'write'])
  expect(await callsOf(tool.box)).toMatchObject([
    { tool: 'verify', state: 'settled', attempts: 1, response: { data: { uploadedCount: 1 } } },
  ])
  const { items } = (await tool.box.get('/artifacts')).json as { items: unknown[] }
  expect(items).toMatchObject([{ path: 'proof.txt' }])
  const [save, ...more] = await callsOf(snapshot.box)
  expect(more).toEqual([])
  expect(['settled', 'unknown']).toContain(save?.state)
  const stored = (await snapshot.box.eventsOf('snapshot.stored')).filter(
    ({ message }) => message !== 'Left by a sandbox that had ended',
  )
  expect(stored).toHaveLength(save?.response?.success ? 1 : 0)
  expect((await snapshot.box.view()).activeCalls).toBe(0)
  expect(readdirSync(snapshotFolder(stack(), '.drafts'))).toEqual([])
}

test.each<Death>(['agent', 'OpenCode', 'folder', 'host'])(
  '[LIFE17] [LIFE6] [LIFE7] [CALL17] %s gone while sessions are created, boot, idle, think, use tools and are saved: each recovers, effects are once, the model is told',
  async (death) => {
    const scenes = await prepare()
    await strike(death, scenes)
    const { box, turn } = scenes['mid-tool']
    if (turn) await box.ended(turn, 90_000)
    holder.letGo()
    // What is under way goes on: with the sandbox, or before what it has left is saved.
    const taker = death === 'host' ? undefined : findTaker(stack())
    if (taker !== undefined) signalProcess(taker, 'SIGCONT')
    const all = Object.entries(scenes)
    await Promise.all(all.map(([phase, scene]) => expectRecovered(phase, scene, death)))
    await expectOnce(scenes)
    await Promise.all(all.map(([, scene]) => scene.box.post('/close')))
    for (const [, scene] of all) await expectGone(scene.box, scene.box.generation)
  },
  240_000,
)

test('[LIFE2] [LIFE8] a sandbox whose agent dies at every start: the session has failed, names each reason, refuses prompts, and can be tried again', async () => {
  const box = await Box.create(stack())
  onTestFinished(async () => void (await box.post('/close')))
  const { sandbox } = await until('it has failed', 120_000, async () => {
    const view = await box.view()
    box.generation = view.sandbox.generation
    const agent = findAgent(box)
    if (agent !== undefined) signalProcess(agent, 'SIGKILL')
    return view.sandbox.state === 'failed' && view
  })
  expect(sandbox.failures.map(({ generation }) => generation)).toEqual([1, 2, 3])
  for (const { reason } of sandbox.failures) expect(reason).toContain('SIGKILL')
  const refused = await box.post('/prompts', { text: 'Hello' })
  expect([refused.status, refused.text]).toEqual([409, expect.stringContaining('SIGKILL')])
  for (const generation of [1, 2, 3]) await expectGone(box, generation)

  expect((await box.post('/retry')).status).toBe(200)
  await readyAs(box, 4)
  expect(await nextPrompt(stack(), box)).toBe('')
}, 180_000)
