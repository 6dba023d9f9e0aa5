import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { OpenCode } from '../../../sandbox-agent/opencode/opencode.ts'
import { openEnclosure } from '../../../sandbox-agent/enclosure/enclosure.ts'
import { opencodeDouble } from './opencode-double.ts'

async function start(says: Parameters<typeof opencodeDouble>[0] = {}): Promise<OpenCode> {
  const { root, binary, manifest } = opencodeDouble(says)
  const opencode = await OpenCode.start({
    binary,
    manifest,
    environment: {},
    enclosure: openEnclosure(undefined, ''),
    logFile: join(root, 'opencode.log'),
    onEvent: () => undefined,
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
