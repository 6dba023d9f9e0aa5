import { describe, expect, test } from 'vitest'
import { remoteImage } from '../../src/adapters/sandboxes/remote-layout.ts'
import type { Artifact } from '../../src/contract/artifact.ts'
import type { SessionDiff } from '../../src/contract/session.ts'
import { api, callsOf, tool } from '../e2e/contract-kit.ts'
import {
  agentProgram,
  type Place,
  type Provider,
  startPlace,
  whyNot,
} from '../e2e/providers-kit.ts'
import { readyAs } from '../e2e/recovery-kit.ts'
import { bash, Box, until, verify, write } from '../e2e/support.ts'
import { makeSmallOpenCode } from '../support/small-opencode.ts'
import { useSmallStack } from '../support/small-stack.ts'

// Real agents on every provider, each with a small OpenCode; the long run has the real one.

const stack = useSmallStack()

interface Case {
  provider: Provider
  rules: string
  /** What an ended sandbox leaves can be saved. */
  keepsFiles: boolean
}
const cases: Case[] = [
  { provider: 'local', rules: '[PROV20]', keepsFiles: true },
  { provider: 'e2b', rules: '[PROV20] [E2B16]', keepsFiles: false },
  { provider: 'modal', rules: '[PROV20] [MODAL11]', keepsFiles: false },
]

describe.concurrent('sessions', { timeout: 300_000 }, () => {
  for (const { provider, rules, keepsFiles } of cases) {
    const why = whyNot[provider]
    const title = `${rules} on ${provider} two run at once; one works, is saved, killed, replaced and restored; both are closed, and nothing is left`
    test.skipIf(why !== null)(
      why === null ? title : `${title} (not here: ${why})`,
      async ({ onTestFinished }) => {
        const place = await openPlace(provider)
        onTestFinished(() => place.close(), 60_000)
        const before = await place.left(stack())
        const boxes = await Promise.all(
          [1, 2].map(() => Box.create(stack(), { sandbox: provider })),
        )
        for (const box of boxes) {
          await box.ready()
          if (provider !== 'local') await expectLiteral(place, box)
        }
        const [box, other] = boxes as [Box, Box]
        await end(other)
        await works(box)
        const snapshotId = await isSaved(box)
        await place.kill(box.id, 1)
        await readyAs(box, 2)
        await isRestored(box, snapshotId, keepsFiles)
        if (provider !== 'local') await expectLiteral(place, box)
        await end(box)
        await until('nothing is left', 60_000, async () => {
          return (await place.left(stack())).length <= before.length
        })
        expect(await place.left(stack())).toEqual(before)
        expect(place.refused()).toEqual([])
      },
    )
  }
})

async function openPlace(provider: Provider): Promise<Place> {
  const opencode = makeSmallOpenCode(remoteImage.node)
  const place = await startPlace[provider](await agentProgram(), opencode)
  await place.open(stack())
  if (provider !== 'local') await useAccount(provider, place.env)
  return place
}

/** The organisation's own account at the vendor. */
async function useAccount(provider: Provider, env: Record<string, string>): Promise<void> {
  const accounts: Partial<Record<Provider, object>> = {
    e2b: {
      apiKey: env['GANTRY_E2B_API_KEY'],
      apiUrl: env['GANTRY_E2B_API_URL'],
      sandboxUrl: env['GANTRY_E2B_SANDBOX_URL'],
      template: env['GANTRY_E2B_TEMPLATE'],
    },
    modal: { url: env['GANTRY_MODAL_URL'], secret: env['GANTRY_MODAL_SECRET'] },
  }
  const path = `/v1/providers/${provider}/credentials`
  const answer = await api(stack(), 'PUT', path, accounts[provider])
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)])
}

/** OpenCode runs as the sandbox's user, on the literal port, behind a password; the gate's files are not its own. */
async function expectLiteral(place: Place, { id, generation }: Box): Promise<void> {
  const as = (user: 'root' | 'user', script: string) => place.inside(id, generation, user, script)
  const running = async () =>
    (await as('root', 'ps -e -o user=,args='))
      .split('\n')
      .map((line) => line.trim().replace(/\s+/, ' '))
      .filter((line) => line.includes('/opt/gantry/bin/node'))
      .toSorted()
  const expected = [
    'root /opt/gantry/bin/node /opt/gantry/agent.mjs',
    'user /opt/gantry/bin/node /opt/gantry/bin/opencode serve --port 4096 --hostname 0.0.0.0 --print-logs',
  ].join('\n')
  // The agent may just be reading what a turn has changed, by a process of its own.
  const alone = async () => (await running()).join('\n') === expected
  await until('nothing but the agent and OpenCode runs', 30_000, alone)
  const asked = `exec 3<>/dev/tcp/127.0.0.1/4096; printf 'GET /session HTTP/1.0\\r\\n\\r\\n' >&3; head -n 1 <&3`
  expect(await as('user', `bash -c "${asked}"`)).toContain('401')
  await as('user', 'test -r /home/user/.config/opencode/plugin/proliferate.mjs')
  await as('user', 'cd /workspace && git log && touch made-by-user && rm made-by-user')
  for (const script of ['touch /opt/gantry/config/x', 'cat /var/lib/gantry/agent.log'])
    await expect(as('user', script)).rejects.toThrow(script)
}

/** What was done in the sandbox is seen by the session's caller. */
async function works(box: Box): Promise<void> {
  const turn = await box.run([
    write('HELLO.md', '# Hello\n'),
    bash('cat HELLO.md; id -u'),
    write('.proliferate/.verification/proof.txt', 'proof\n'),
    verify(),
    { text: 'It is written and verified.' },
  ])
  expect(turn).toMatchObject({ state: 'completed', text: 'It is written and verified.' })
  const shown = (await box.eventsOf('tool.completed')).find((one) => one.tool === 'bash')
  expect(shown?.output).toMatch(/^# Hello\n\d+\n$/)
  const { files, live } = (await box.get('/diff')).json as SessionDiff
  expect(live).toBe(true)
  expect(files.map(({ path, status }) => `${status} ${path}`)).toContain('added HELLO.md')
  const { items } = (await box.get('/artifacts')).json as { items: Artifact[] }
  expect((await box.get(`/artifacts/${items[0]?.id}`)).text).toBe('proof\n')
  expect(await callsOf(box)).toMatchObject([{ tool: 'verify', state: 'settled', attempts: 1 }])
}

/** A snapshot, and then work that is not in it. */
async function isSaved(box: Box): Promise<string> {
  const saved = await box.run([
    tool('save_snapshot', { message: 'with hello' }),
    bash('echo more > after.txt'),
  ])
  expect(saved).toMatchObject({ state: 'completed' })
  const [snapshot] = await box.eventsOf('snapshot.stored')
  return snapshot?.id ?? ''
}

/** From the snapshot, or from what was saved after the end, if anything could be. */
async function isRestored(box: Box, snapshotId: string, keepsFiles: boolean): Promise<void> {
  expect(await box.eventsOf('sandbox.replaced')).toMatchObject([
    { from: 1, to: 2, snapshotId: keepsFiles ? expect.stringMatching(/^snp_/) : snapshotId },
  ])
  const { text } = await box.run('What were you told?')
  expect(text).toContain('the sandbox in which you worked has ended')
  expect(text).toContain('Lost: Whatever was changed after the snapshot')
  const listed = await box.bash('cat HELLO.md; ls')
  expect(listed).toContain('# Hello\n')
  expect(listed.includes('after.txt')).toBe(keepsFiles)
}

async function end(box: Box): Promise<void> {
  expect((await box.post('/close')).status).toBe(200)
  await until('it is stopped', 60_000, async () => {
    return (await box.view()).sandbox.state === 'stopped'
  })
  expect((await api(box.stack, 'DELETE', `/v1/sessions/${box.id}`)).status).toBe(204)
}
