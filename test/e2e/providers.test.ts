import { afterAll, describe, expect, test } from 'vitest'
import type { Artifact } from '../../src/contract/artifact.ts'
import type { SessionDiff } from '../../src/contract/session.ts'
import { request } from '../support/stack.ts'
import { callsOf, tool } from './contract-kit.ts'
import { agentProgram, type Place, type Provider, startPlace, whyNot } from './providers-kit.ts'
import { nextPrompt, readyAs } from './recovery-kit.ts'
import { bash, Box, until, useRealStack, verify, write } from './support.ts'

const places = new Map<Provider, Place>()
const stack = useRealStack('workerd', async () => {
  const agent = await agentProgram()
  for (const name of ['local', 'e2b', 'modal'] as const)
    if (whyNot[name] === null) places.set(name, await startPlace[name](agent))
  return {
    env: Object.assign({}, ...[...places.values()].map(({ env }) => env)) as Record<string, string>,
  }
})
afterAll(() => Promise.all([...places.values()].map((place) => place.close())), 60_000)

const outputOf = async (box: Box, turnId: string, name: string) =>
  (await box.eventsOf('tool.completed')).find((one) => one.turnId === turnId && one.tool === name)
    ?.output

/** What OpenCode did is seen by the session's caller. */
async function works(box: Box): Promise<void> {
  const turn = await box.run([
    write('HELLO.md', '# Hello\n'),
    bash('echo from bash > made.txt; cat HELLO.md; id -u'),
    write('.proliferate/.verification/proof.txt', 'proof\n'),
    verify(),
    { text: 'It is written and verified.' },
  ])
  expect(turn).toMatchObject({ state: 'completed', text: 'It is written and verified.' })
  expect(await outputOf(box, turn.id, 'bash')).toMatch(/^# Hello\n[1-9]\d*\n$/)
  const { files, live } = (await box.get('/diff')).json as SessionDiff
  expect(live).toBe(true)
  expect(files.map(({ path, status }) => `${status} ${path}`)).toEqual(
    expect.arrayContaining(['added HELLO.md', 'added made.txt']),
  )
  const { items } = (await box.get('/artifacts')).json as { items: Artifact[] }
  expect(items).toMatchObject([{ path: 'proof.txt' }])
  expect((await box.get(`/artifacts/${items[0]?.id}`)).text).toBe('proof\n')
  expect(await callsOf(box)).toMatchObject([{ tool: 'verify', state: 'settled', attempts: 1 }])
}

/** A snapshot, then work that is not in it, then another sandbox. */
async function isReplaced(box: Box): Promise<void> {
  const saved = await box.run([
    tool('save_snapshot', { message: 'with hello' }),
    { text: 'Saved.' },
  ])
  expect(saved).toMatchObject({ state: 'completed' })
  const [snapshot] = await box.eventsOf('snapshot.stored')
  expect(await box.bash('echo more > after.txt; ls')).toContain('after.txt')
  expect((await box.post('/replace', { reason: 'A test' })).status).toBe(200)
  await readyAs(box, 2)
  expect(await box.eventsOf('sandbox.replaced')).toMatchObject([
    {
      from: 1,
      to: 2,
      snapshotId: snapshot?.id,
      lost: expect.stringContaining('Whatever was changed'),
    },
  ])
  expect(await nextPrompt(stack(), box)).toContain('Lost: Whatever was changed after the snapshot')
  const listed = await box.bash('cat HELLO.md made.txt; ls; git log --oneline | wc -l')
  expect(listed).toContain('# Hello\nfrom bash\n')
  expect(listed).not.toContain('after.txt')
}

describe.each<Provider>(['local', 'e2b', 'modal'])('a session on %s', (provider) => {
  const why = whyNot[provider]
  const place = () => places.get(provider) as Place

  test.skipIf(why !== null)(
    `[PROV20] it works, is saved, replaced, killed, restored twice and closed, and nothing is left${why === null ? '' : ` (not here: ${why})`}`,
    async () => {
      await place().open(stack())
      const before = await place().left(stack())
      const box = await Box.open(stack(), { sandbox: provider })
      await works(box)
      await isReplaced(box)
      await place().kill(box.id, 2)
      await readyAs(box, 3)
      expect(await box.bash('cat HELLO.md')).toBe('# Hello\n')
      expect((await box.post('/close')).status).toBe(200)
      await until('it is stopped', 60_000, async () => {
        return (await box.view()).sandbox.state === 'stopped'
      })
      const url = `${stack().url}/v1/sessions/${box.id}`
      expect((await request('DELETE', url, stack().adminKey)).status).toBe(204)
      await until('nothing is left', 60_000, async () => {
        return (await place().left(stack())).length <= before.length
      })
      expect(await place().left(stack())).toEqual(before)
      expect(place().refused()).toEqual([])
    },
    240_000,
  )
})
