import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { bash, Box, lastRequest, until, useRealStack } from './support.ts'

const stack = useRealStack('workerd')

test('[LIFE5] [LIFE7] the agent is killed in mid-turn: the sandbox is replaced by itself from the files that it left, and the model is told', async () => {
  const box = await Box.open(stack())
  expect(await box.bash('echo kept > kept.txt; cat kept.txt')).toBe('kept\n')
  const turn = await box.prompt([bash('sleep 617')])
  await box.seen('tool.started', ({ turnId }) => turnId === turn.id)
  process.kill(box.agentPid(), 'SIGKILL')
  expect(await box.ended(turn)).toMatchObject({ state: 'interrupted' })
  await until('nothing of it is left', 30_000, () => box.processes().length === 0)
  await until('there is another one', 60_000, async () => {
    const { sandbox } = await box.view()
    box.generation = sandbox.generation
    return sandbox.state === 'ready' && sandbox.generation === 2
  })
  const [replaced] = await box.eventsOf('sandbox.replaced')
  expect(replaced).toMatchObject({
    from: 1,
    to: 2,
    interruptedTurnId: turn.id,
    reason: expect.stringContaining('SIGKILL'),
    lost: 'Nothing of the workspace',
  })
  expect(await box.run([bash('true'), { text: 'I see.' }])).toMatchObject({ text: 'I see.' })
  const conversation = lastRequest(stack(), (messages) =>
    JSON.stringify(messages).includes('I see.'),
  )
  const told = JSON.stringify(conversation.find(({ role }) => role === 'user'))
  expect(told).toContain('Note from Gantry: the sandbox in which you worked has ended')
  expect(told).toContain('The last turn was interrupted')
  expect(readFileSync(box.folder('workspace/kept.txt'), 'utf8')).toBe('kept\n')
})

/** Everything that can be seen of a session without doing something. */
const looks = ['', '/events', '/diff', '/artifacts', '/calls', '/approvals', '/env-requests']

test('[LIFE9] [LIFE10] [LIFE11] unused it goes to sleep with its uncommitted work, however often it is looked at; only a prompt wakes it, where it was', async () => {
  const box = await Box.open(stack(), { idleTimeoutSeconds: 10 })
  expect(await box.bash('echo work > work.txt; cat work.txt')).toBe('work\n')
  const look = () => Promise.all(looks.map((path) => box.get(path)))
  await until('it sleeps', 60_000, async () => {
    await look()
    return (await box.view()).sandbox.state === 'stopped'
  })
  const asleep = await box.view()
  expect(asleep).toMatchObject({ status: 'open', sandbox: { generation: 1 } })
  await until('nothing of it runs', 10_000, () => box.processes().length === 0)
  const [hibernated] = await box.eventsOf('sandbox.hibernated')
  expect(hibernated).toMatchObject({ generation: 1, snapshotId: expect.any(String) })
  for (let times = 0; times < 30; times += 1) {
    const answers = await look()
    expect(answers.map(({ status }) => status)).toEqual(looks.map(() => 200))
  }
  expect(await box.view()).toMatchObject({
    sandbox: { state: 'stopped', generation: 1 },
    lastEventSeq: asleep.lastEventSeq,
  })
  expect(existsSync(box.folder())).toBe(false)

  const woken = await box.prompt([bash('cat work.txt'), { text: 'Good morning.' }])
  expect(await box.ended(woken, 90_000)).toMatchObject({
    state: 'completed',
    text: 'Good morning.',
  })
  box.generation = (await box.view()).sandbox.generation
  expect(box.generation).toBe(2)
  const read = (await box.eventsOf('tool.completed')).findLast(({ turnId }) => turnId === woken.id)
  expect(read?.output).toBe('work\n')
  expect(await box.eventsOf('sandbox.replaced')).toEqual([])
  expect(readFileSync(box.folder('workspace/work.txt'), 'utf8')).toBe('work\n')
})
