import { beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Equipment } from '../../../../src/contract/tool.ts'
import { contractTools, toolFileName } from '../../../../src/contract/tools.ts'
import { SessionCreate } from '../../../../src/contract/session.ts'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'
import { gatewayTool } from '../../../../src/core/session/calls/tools/tool.ts'
import { policyOf, RunWorld } from '../../../support/run-world.ts'
import { testCaller, testSessionId } from '../../../support/session.ts'

let runs = 0
const own = gatewayTool({
  definition: {
    name: 'memory.look',
    aliases: [],
    domain: 'gateway',
    needs: 'memory',
    category: 'memory',
    args: z.strictObject({ text: z.string() }),
    description: 'Looks into the memory',
    guidance: 'Look before you ask.',
    onConflict: 'refuse',
  },
  repeatable: true,
  run: ({ text }) => ({ success: true, result: `${text} ${(runs += 1)}` }),
})
const tools = [...gatewayTools, own]
const file = toolFileName(own.definition)

async function begin(
  equipment: Equipment[],
  rules: object[] = [],
  more: Record<string, unknown> = {},
) {
  const world = new RunWorld(tools)
  await world.actor.api.self.create({
    ...{ sessionId: testSessionId, ...testCaller, equipment },
    input: SessionCreate.parse({ sandbox: 'local', ...more }),
    policy: rules.length === 0 ? null : policyOf({ rules }),
  })
  await world.pass(0)
  await world.meet()
  return world
}
const sandbox = { organisationId: testCaller.organisationId, generation: 1 }
const manifestOf = (world: RunWorld) => world.actor.api.agent.manifest(sandbox)
const looks = async (world: RunWorld, args: Record<string, unknown> = { text: 'x' }) =>
  JSON.parse((await world.call('memory.look', `c${(runs += 1)}`, args)).body)

beforeEach(() => (runs = 0))

describe('a session that has what a tool needs', () => {
  test('[TOOL16] gets its files and its place in the guide, and its calls run', async () => {
    const world = await begin(['memory', 'memory'])
    const { files, absent, toolIds, layout } = await manifestOf(world)
    expect(toolIds).toContain(file)
    const text = (path: string) => files.find((one) => one.path === `${layout.workspace}/${path}`)
    for (const ending of ['ts', 'txt'])
      expect(text(`.opencode/tool/${file}.${ending}`)?.content).toContain('Looks into the memory')
    expect(text('.proliferate/actions-guide.md')?.content).toContain('## memory.look')
    expect(text('.opencode/instructions.md')?.content).toContain('memory.look')
    const plugin = files.find(({ path }) => path.endsWith('proliferate.mjs'))?.content
    expect(plugin).toContain(`"${file}":["text"]`)
    expect(absent.filter(({ path }) => path.includes(file))).toEqual([])
    expect(await looks(world)).toMatchObject({ success: true })
    world.restart()
    expect((await manifestOf(world)).toolIds).toContain(file)
  })

  test('[TOOL17] may use it unless a rule, an override or its own lists say otherwise', async () => {
    const decide = async (...given: Parameters<typeof begin>) => {
      const world = await begin(...given)
      await world.prompt()
      return world.answerTo(await world.ask(file))
    }
    expect(await decide(['memory'])).toBe('allow')
    const deny = [{ match: { category: 'memory' }, decision: 'deny' }]
    expect(await decide(['memory'], deny)).toBe('deny')
    const ask = [{ match: { category: 'memory' }, decision: 'ask' }]
    expect(await decide(['memory'], ask)).toBe(null)
    const gate = { deny: [file] }
    expect(await decide(['memory'], [], { gate })).toBe('deny')
    // Somebody else's tool asks, as tools of strangers do.
    expect(await decide(['skills'])).toBe(null)
  })
})

describe('a session without it', () => {
  test.each([{ equipment: [] }, { equipment: ['abilities'] as Equipment[] }])(
    "[TOOL16] with $equipment has the contract's tools, what that brings, and no other",
    async ({ equipment }) => {
      const world = await begin(equipment)
      const { files, absent, toolIds } = await manifestOf(world)
      const scratch = contractTools.filter(({ modes }) => modes.includes('scratch'))
      const brought = toolIds.filter((id) => id.startsWith('ability_'))
      expect(brought).toHaveLength(equipment.length === 0 ? 0 : 6)
      expect(toolIds.filter((id) => !brought.includes(id))).toEqual(scratch.map(toolFileName))
      expect(files.filter(({ path }) => path.includes(file))).toEqual([])
      for (const { path, content } of files)
        expect([path, content.includes('memory.look')]).toEqual([path, false])
      expect(absent.filter(({ path }) => path.includes(file))).toHaveLength(2)
    },
  )

  test('[TOOL16] its call runs nothing and is told what to create instead, after its arguments are checked', async () => {
    const world = await begin(['skills'])
    const answer = await looks(world)
    expect(answer.success).toBe(false)
    expect(answer.result).toBe(
      '"memory.look" is for sessions with memory, and this one was created without: create a session that names memory, or an agent that has it',
    )
    expect((await looks(world, { other: 1 })).result).toContain('Invalid arguments')
  })
})
