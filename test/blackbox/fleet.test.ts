import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect } from 'vitest'
import { runFleet, thingsOf } from '../../bench/fleet.ts'
import type { Boot } from '../../src/contract/manifest.ts'
import { portsOf, until } from '../e2e/support.ts'
import { agentEvent, TestAgent } from '../support/agent.ts'
import { onLinux } from '../support/needs.ts'
import { useSmallStack } from '../support/small-stack.ts'

// Fifty real sandboxes, whose agents are shells that hand their boot document to this process: it answers for them.
// The long run has fifty OpenCodes.

const folder = mkdtempSync(join(tmpdir(), 'gantry-fleet-'))
const stack = useSmallStack(() => {
  const path = join(folder, 'agent')
  const draft = `${folder}/$GANTRY_SANDBOX`
  const lines = [
    '#!/bin/sh',
    `cat > "${draft}" && mv "${draft}" "${draft}.json"`,
    `echo '{"msg":"ready"}'`,
    'exec sleep 600',
  ]
  writeFileSync(path, `${lines.join('\n')}\n`)
  chmodSync(path, 0o755)
  return path
})
let timer: NodeJS.Timeout
beforeAll(() => {
  const known = new Set<string>()
  timer = setInterval(() => {
    for (const name of readdirSync(folder).filter((each) => each.endsWith('.json'))) {
      if (known.has(name)) continue
      known.add(name)
      void play(JSON.parse(readFileSync(join(folder, name), 'utf8')) as Boot)
    }
  }, 50)
})
afterAll(() => {
  clearInterval(timer)
  rmSync(folder, { recursive: true, force: true })
})

/** Answers one prompt. */
async function play({ gatewayUrl, sessionId, token }: Boot): Promise<void> {
  const agent = TestAgent.dial(gatewayUrl, sessionId, token)
  await agent.greet()
  const { id } = await agent.next('command', ({ kind }) => kind === 'prompt')
  agent.send({ t: 'result', commandId: id, ok: true, data: { sent: true } })
  const end = { turnId: id, state: 'completed', reason: null, text: 'Done.', diff: null }
  agent.send({ t: 'events', items: [agentEvent(1, 'turn.ended', end)] })
}

const count = 50

onLinux(
  `[LOC22] ${count} sessions at once: all are created, answer and close; none is replaced, and no process, port or folder is left`,
  async () => {
    const look = () => {
      const things = thingsOf(stack())
      return { ...things, ports: portsOf(things.processes) }
    }
    const { root = '' } = stack().sandboxSite ?? {}
    await until('earlier sandboxes are gone', 60_000, () => readdirSync(root).length === 0)
    const before = look()
    const { turns, sessions, replaced } = await runFleet(stack(), count)
    expect(turns.map(({ state, text }) => `${state}: ${text}`)).toEqual(
      Array.from({ length: count }, () => 'completed: Done.'),
    )
    expect(replaced).toEqual([])
    for (const { status, sandbox } of sessions)
      expect({ status, state: sandbox.state, generation: sandbox.generation }).toEqual({
        status: 'closed',
        state: 'stopped',
        generation: 1,
      })
    // The taker of a snapshot or a git of the host may still be on its way out.
    await until('only the stack is left', 60_000, () => {
      return look().processes.length <= before.processes.length
    })
    expect(look()).toEqual(before)
  },
  300_000,
)
