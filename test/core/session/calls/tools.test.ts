import { describe, expect, test } from 'vitest'
import type { Mode } from '../../../../src/contract/mode.ts'
import { SessionCreate } from '../../../../src/contract/session.ts'
import { contractTools, toolFileName } from '../../../../src/contract/tools.ts'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'
import { testCaller, TestSession, testSessionId } from '../../../support/session.ts'

const configuration = {
  id: `cfg_${'1'.repeat(20)}`,
  project: 'default',
  repository: null,
  defaultModel: null,
  trustProjectConfig: false,
  envFiles: [],
  snapshotId: null,
}
const inputs: Record<Mode, Record<string, unknown>> = {
  scratch: {},
  coding: {},
  setup: { sessionType: 'setup' },
  automation: { clientType: 'automation' },
}

/** A session of a mode, over the real tools. */
async function sessionOf(mode: Mode, more: Record<string, unknown> = {}): Promise<TestSession> {
  const session = new TestSession(gatewayTools)
  await session.actor.api.self.create({
    sessionId: testSessionId,
    ...testCaller,
    input: SessionCreate.parse({ sandbox: 'local', ...inputs[mode], ...more }),
    ...(mode === 'scratch' ? {} : { configuration: configuration as never }),
  })
  await session.pass(0)
  await session.connect()
  return session
}

const sandbox = { organisationId: testCaller.organisationId, generation: 1 }
const filesOf = async (session: TestSession) => {
  const { files, layout } = await session.actor.api.agent.manifest(sandbox)
  const text = (path: string) => files.find((file) => file.path === `${layout.workspace}/${path}`)
  return { files, layout, text: (path: string) => text(path)?.content }
}
const modes: Mode[] = ['scratch', 'coding', 'setup', 'automation']

describe('what a sandbox is given', () => {
  test.each(modes)(
    '[TOOL12] %s: tools are files, and the configuration names none',
    async (mode) => {
      const { text } = await filesOf(await sessionOf(mode))
      const inMode = contractTools.filter((tool) => tool.modes.includes(mode))
      for (const tool of contractTools) {
        const isThere = inMode.includes(tool)
        for (const ending of ['ts', 'txt'])
          expect([
            tool.name,
            ending,
            text(`.opencode/tool/${toolFileName(tool)}.${ending}`) !== undefined,
          ]).toEqual([tool.name, ending, isThere])
      }
      const config = JSON.parse(text('opencode.json') ?? '') as Record<string, unknown>
      expect(Object.keys(config).filter((key) => /^tools?$/.test(key))).toEqual([])
      expect(JSON.stringify(config)).not.toMatch(/save_snapshot|request_env_variables/)
    },
  )

  test('[TOOL12] beside the tools stand package.json and node_modules, so that nothing is installed', async () => {
    const { text, files, layout } = await filesOf(await sessionOf('coding'))
    const needed = JSON.parse(text('.opencode/tool/package.json') ?? '') as object
    expect(needed).toEqual({ dependencies: { '@opencode-ai/plugin': expect.any(String) } })
    expect(text('.opencode/tool/package-lock.json')).toContain('@opencode-ai/plugin')
    const modules = `${layout.workspace}/.opencode/tool/node_modules/`
    expect(files.filter(({ path }) => path.startsWith(modules))).toHaveLength(1)
  })

  test.each(modes)(
    '[TOOL13] %s: instructions and actions guide are written, and say where each tool runs',
    async (mode) => {
      const { text } = await filesOf(await sessionOf(mode))
      const instructions = text('.opencode/instructions.md') ?? ''
      const guide = text('.proliferate/actions-guide.md') ?? ''
      const [outside = '', inside = ''] = guide.split('These tools run in the sandbox')
      expect(outside).toContain('These tools run outside the sandbox')
      for (const tool of contractTools.filter((each) => each.modes.includes(mode))) {
        const [here, there] = tool.domain === 'gateway' ? [outside, inside] : [inside, outside]
        expect([
          tool.name,
          here.includes(`## ${tool.name}\n`),
          there.includes(`## ${tool.name}\n`),
        ]).toEqual([tool.name, true, false])
      }
      const runOutside =
        instructions.split('\n').find((line) => line.includes('through these tools')) ?? ''
      expect(runOutside).toContain('save_snapshot')
      expect(runOutside).not.toContain('request_env_variables')
    },
  )
})

describe('what a handler refuses', () => {
  const right: Record<string, Record<string, unknown>> = {
    save_service_commands: { commands: [{ name: 'web', command: 'npm start' }] },
    save_env_files: {
      files: [
        { path: '.env', format: 'dotenv', mode: 'secret', keys: [{ key: 'A', required: true }] },
      ],
    },
    'automation.complete': { run_id: 'r', completion_id: 'c', outcome: 'succeeded' },
  }
  let n = 0
  const answer = async (session: TestSession, tool: string, args: Record<string, unknown>) =>
    JSON.parse((await session.call(tool, `call-${(n += 1)}`, args)).body) as {
      success: boolean
      result: string
    }

  test.each(gatewayTools.map(({ definition }) => definition.name))(
    '[TOOL14] %s: arguments that its schema does not know, before its mode is looked at',
    async (tool) => {
      for (const mode of modes) {
        const session = await sessionOf(mode)
        expect(await answer(session, tool, { ...right[tool], more: 1 })).toMatchObject({
          success: false,
          result: expect.stringContaining('Invalid arguments'),
        })
      }
    },
  )

  test.each(['run_id', 'completion_id', 'outcome'])(
    '[TOOL14] automation.complete without %s: nothing is recorded, and the id stays free',
    async (missing) => {
      const session = await sessionOf('automation', { automationRunId: 'r' })
      const { [missing]: _, ...args } = right['automation.complete'] ?? {}
      expect(await answer(session, 'automation.complete', args)).toMatchObject({
        success: false,
        result: expect.stringContaining(missing),
      })
      const view = await session.actor.api.self.view(testCaller)
      expect(view.automationRun).toMatchObject({ state: 'running', completionId: null })
    },
  )

  test.each(Object.keys(right))('[TOOL14] %s: outside its modes', async (tool) => {
    const definition = contractTools.find(({ name }) => name === tool)
    const others = modes.filter((mode) => !definition?.modes.includes(mode))
    expect(others.length).toBeGreaterThan(0)
    for (const mode of others) {
      const session = await sessionOf(mode)
      expect(await answer(session, tool, right[tool] ?? {})).toMatchObject({
        success: false,
        result: expect.stringContaining('sessions only'),
      })
    }
  })
})

describe('agent_config', () => {
  test('[MODE10] is kept and shown, and filters no tool', async () => {
    const plain = await sessionOf('coding')
    expect((await plain.actor.api.self.view(testCaller)).agent_config).toEqual({
      agentType: 'opencode',
    })
    const agent_config = { agentType: 'opencode', tools: ['verify'] }
    const session = await sessionOf('coding', { agent_config })
    session.restart()
    expect((await session.actor.api.self.view(testCaller)).agent_config).toEqual(agent_config)
    const names = async (of: TestSession) => (await filesOf(of)).files.map(({ path }) => path)
    expect(await names(session)).toEqual(await names(plain))
  })

  test('[MODE10] no other agent than opencode exists', () => {
    const parsed = SessionCreate.safeParse({ agent_config: { agentType: 'claude-code' } })
    expect(parsed.error?.issues[0]).toMatchObject({
      path: ['agent_config', 'agentType'],
      message: 'Only "opencode" exists',
    })
  })
})
