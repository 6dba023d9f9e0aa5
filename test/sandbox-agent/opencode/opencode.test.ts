import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { OpenCode, type OpenCodeEvent } from '../../../sandbox-agent/opencode/opencode.ts'
import { openEnclosure } from '../../../sandbox-agent/enclosure/enclosure.ts'
import { opencodeDouble } from './opencode-double.ts'

async function start(
  says: Parameters<typeof opencodeDouble>[0] = {},
  onEvent: (event: OpenCodeEvent) => void = () => undefined,
): Promise<OpenCode> {
  const { root, binary, manifest } = opencodeDouble(says)
  const opencode = await OpenCode.start({
    binary,
    manifest,
    environment: {},
    enclosure: openEnclosure(undefined, ''),
    masks: [],
    logFile: join(root, 'opencode.log'),
    onEvent,
    onExit: () => undefined,
  })
  onTestFinished(() => opencode.kill())
  return opencode
}

describe('[BOX6] OpenCode is ready', () => {
  it('if it answers, refuses strangers, and has the marker and every tool', async () => {
    expect((await start()).alive).toBe(true)
  })

  it('not while it lets callers in without its password', async () => {
    await expect(start({ isOpen: true })).rejects.toThrow(
      'OpenCode answers without its password: 200',
    )
  })

  it.each([[['verify']], [['marker']], [[]]])('not with %j alone', async (tools) => {
    await expect(start({ tools })).rejects.toThrow('OpenCode has not loaded: ')
  })
})

it('[GATE16] it is followed in every folder: a request may name another one', async () => {
  const heard: unknown[] = []
  const { manifest } = opencodeDouble()
  const tool = (id: string) => ({ type: 'message.part.updated', properties: { part: { id } } })
  const elsewhere = (payload: object) => ({ directory: '/elsewhere', project: 'p', payload })
  await start(
    {
      events: [tool('here')],
      globalEvents: [
        { directory: manifest.layout.workspace.replace(/[^/]+\/workspace$/, 'x'), payload: {} },
        elsewhere({ type: 'sync', syncEvent: {} }),
        elsewhere({ type: 'server.heartbeat', properties: {} }),
        elsewhere(tool('there')),
      ],
    },
    (event) => void heard.push(event),
  )
  await expect.poll(() => heard).toHaveLength(2)
  expect(heard).toEqual(expect.arrayContaining([tool('here'), tool('there')]))
})
