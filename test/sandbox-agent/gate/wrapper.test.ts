import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { AskId } from '../../../src/contract/ids.ts'
import { contractTools } from '../../../src/contract/tools.ts'
import { verifyTool } from '../../../src/contract/tools/verify.ts'
import { gatePluginText } from '../../../src/core/session/manifest/gate-plugin.ts'
import { toolFile } from '../../../src/core/session/manifest/tool-files.ts'
import { json, serve, temporaryFolder } from '../support.ts'

interface Wrapper {
  execute(
    args: object,
    context: object,
  ): Promise<{ output: string; metadata: { success: boolean } }>
}
type Hooks = Record<string, (input: unknown, output: unknown) => Promise<void>> & {
  tool: Record<string, object>
}

/** Loads the text as OpenCode does: from a file that stands alone. */
async function load<T>(name: string, text: string): Promise<T> {
  const path = join(temporaryFolder(), name)
  writeFileSync(path, text)
  const loaded = (await import(/* @vite-ignore */ pathToFileURL(path).href)) as { default: T }
  return loaded.default
}
const wrapper = () => load<Wrapper>('verify.mjs', toolFile(verifyTool).wrapper)
const plugin = async (): Promise<Hooks> => {
  const text = gatePluginText({ marker: 'gantry_gate_x', home: '/h', required: { verify: [] } })
  return (await load<() => Promise<Hooks>>('proliferate.mjs', text))()
}
function pointAt(url: string): void {
  process.env['PROLIFERATE_GATEWAY_URL'] = url
  process.env['PROLIFERATE_SESSION_ID'] = 'ses_1'
  process.env['SANDBOX_MCP_AUTH_TOKEN'] = 'local'
}
afterEach(() => {
  for (const name of [
    'PROLIFERATE_GATEWAY_URL',
    'PROLIFERATE_SESSION_ID',
    'SANDBOX_MCP_AUTH_TOKEN',
  ]) {
    delete process.env[name]
  }
})

/** How long nobody answered, how long each request might take, and what came of it: the relay is away. */
async function pace<T>(work: () => Promise<T>) {
  const tries: number[] = []
  const limits = vi.spyOn(AbortSignal, 'timeout')
  vi.useFakeTimers({ toFake: ['setTimeout', 'Date'] })
  vi.stubGlobal('fetch', async () => {
    tries.push(Date.now())
    throw new TypeError('fetch failed')
  })
  onTestFinished(() => {
    vi.useRealTimers()
    vi.unstubAllGlobals()
    limits.mockRestore()
  })
  pointAt('http://relay.test')
  let end: T | undefined
  void work().then((value) => (end = value))
  for (let ms = 0; end === undefined && ms < 120_000; ms += 100)
    await vi.advanceTimersByTimeAsync(100)
  const waits = tries.slice(1).map((at, index) => at - (tries[index] ?? 0))
  return { waits, limits: limits.mock.calls.map(([ms]) => ms), end }
}

describe("a tool's wrapper", () => {
  it('[CALL16] asks six times, for 60 s each, after 0.5, 1, 2, 4 and 8 s', async () => {
    const tool = await wrapper()
    const { waits, limits, end } = await pace(() => tool.execute({}, {}))
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000])
    expect(limits).toEqual(Array.from({ length: 6 }, () => 60_000))
    expect(end).toMatchObject({ output: 'Gateway error: fetch failed' })
  })

  it('has no imports', () => {
    expect(toolFile(verifyTool).wrapper).not.toMatch(/\bimport\b|\brequire\(/)
  })

  it('asks again under the same id while the answer is pending, and returns its text', async () => {
    const { url, received } = await serve((_request, response, nth) =>
      nth < 3
        ? json(response, 202, { pending: true })
        : json(response, 200, { success: true, result: 'stored' }),
    )
    pointAt(url)
    const answer = await (await wrapper()).execute({ folder: '' }, {})
    expect(answer).toMatchObject({ output: 'stored', metadata: { success: true } })
    expect(received).toHaveLength(3)
    expect(new Set(received.map((each) => each.body)).size).toBe(1)
    expect(received[0]).toMatchObject({ path: '/proliferate/ses_1/tools/verify' })
    expect(received[0]?.headers.authorization).toBe('Bearer local')
    const body = JSON.parse(received[0]?.body ?? '') as { tool_call_id: string; args: object }
    expect(body.args).toEqual({})
    expect(body.tool_call_id).toMatch(/^[0-9a-f-]{36}$/)
  })

  it('uses a new id for each call', async () => {
    const { url, received } = await serve((_request, response) =>
      json(response, 200, { success: true, result: '' }),
    )
    pointAt(url)
    const tool = await wrapper()
    await tool.execute({}, {})
    await tool.execute({}, {})
    expect(received[0]?.body).not.toBe(received[1]?.body)
  })

  it('turns refusals, nonsense and cut connections into text', async () => {
    const { url } = await serve((_request, response, nth) => {
      if (nth === 1)
        return json(response, 403, { error: { code: 'forbidden', message: 'You may not' } })
      if (nth === 2) return json(response, 200, { nothing: true })
      if (nth === 3) return void response.destroy()
      return json(response, 200, { success: true, result: 'after the cut' })
    })
    pointAt(url)
    const tool = await wrapper()
    expect((await tool.execute({}, {})).output).toBe('Gateway error 403: You may not')
    expect((await tool.execute({}, {})).output).toBe('Gateway error: the answer has no result')
    expect((await tool.execute({}, {})).output).toBe('after the cut')
  })

  it('[TOOL11] shows the first 200 characters of an error page', async () => {
    const { url } = await serve((_request, response) => {
      response.writeHead(502)
      response.end(`${'p'.repeat(199)}🦊${'q'.repeat(1000)}`)
    })
    pointAt(url)
    const { output } = await (await wrapper()).execute({}, {})
    expect(output).toBe(`Gateway error 502: ${'p'.repeat(199)}`)
  })

  it.each(['PROLIFERATE_GATEWAY_URL', 'PROLIFERATE_SESSION_ID', 'SANDBOX_MCP_AUTH_TOKEN'])(
    '[TOOL11] without %s it names it, and calls nobody',
    async (name) => {
      const { url, received } = await serve((_request, response) => json(response, 200, {}))
      pointAt(url)
      delete process.env[name]
      const { output, metadata } = await (await wrapper()).execute({}, {})
      expect(output).toBe(`Gateway error: not set in the sandbox: ${name}`)
      expect([metadata.success, received.length]).toEqual([false, 0])
    },
  )

  it.each(contractTools.map((tool) => [tool.name, tool] as const))(
    '[TOOL15] %s: what runs outside is one request whose answer is the output; what runs inside is none',
    async (_, tool) => {
      const { url, received } = await serve((_request, response) =>
        json(response, 200, { success: true, result: 'from the control plane' }),
      )
      pointAt(url)
      const loaded = await load<Wrapper>(`${tool.fileName}.mjs`, toolFile(tool).wrapper)
      const { output } = await loaded.execute({ keys: ['A'] }, {})
      const isOutside = tool.domain === 'gateway'
      expect(received).toHaveLength(isOutside ? 1 : 0)
      expect(output === 'from the control plane').toBe(isOutside)
    },
  )

  it('stops waiting when the turn is aborted', async () => {
    const { url } = await serve(() => {})
    pointAt(url)
    const answer = await (await wrapper()).execute({}, { abort: AbortSignal.timeout(50) })
    expect(answer).toMatchObject({ output: 'Aborted', metadata: { success: false } })
  })
})

const before = async (hooks: Hooks) =>
  hooks['tool.execute.before']?.(
    { tool: 'bash', sessionID: 's', callID: 'c' },
    { args: { command: 'ls' } },
  )

describe("the gate's plugin", () => {
  it('[CALL16] asks four times, for 60 s each, after 0.2, 0.4 and 0.8 s, and then refuses', async () => {
    const hooks = await plugin()
    const { waits, limits, end } = await pace(() =>
      Promise.resolve(before(hooks)).catch((error: Error) => error.message),
    )
    expect(waits).toEqual([200, 400, 800])
    expect(limits).toEqual(Array.from({ length: 4 }, () => 60_000))
    expect(end).toContain('Gantry refused "bash": The gate cannot be reached')
  })

  it('lets a tool run only after an allow that is confirmed', async () => {
    const { url, received } = await serve((_request, response, nth) =>
      nth === 1
        ? json(response, 202, { pending: true })
        : json(response, 200, { decision: 'allow', reason: '' }),
    )
    pointAt(url)
    await before(await plugin())
    const bodies = received.map((each) => JSON.parse(each.body) as Record<string, unknown>)
    expect(bodies).toHaveLength(3)
    expect(new Set(bodies.map((body) => AskId.parse(body['askId']))).size).toBe(1)
    expect(bodies[0]).toMatchObject({
      tool: 'bash',
      callId: 'c',
      sessionID: 's',
      input: { command: 'ls' },
    })
    expect(bodies[2]).toMatchObject({ confirm: true })
  })

  it('[GATE13] throws, with a way out, when the allow was withdrawn meanwhile', async () => {
    const { url } = await serve((_request, response, nth) =>
      json(
        response,
        200,
        nth === 1 ? { decision: 'allow' } : { decision: 'deny', reason: 'aborted' },
      ),
    )
    pointAt(url)
    await expect(before(await plugin())).rejects.toThrow(
      'Gantry refused "bash": aborted. Do it another way inside the workspace, or say',
    )
  })

  it.each([
    ['a denial', { decision: 'deny', reason: 'not today' }, 200],
    ['an unknown answer', { decision: 'perhaps' }, 200],
    ['nothing', null, 200],
    ['an error', { decision: 'allow' }, 500],
  ])('throws on %s', async (_name, body, status) => {
    const { url } = await serve((_request, response) => json(response, status, body))
    pointAt(url)
    await expect(before(await plugin())).rejects.toThrow(/^Gantry refused "bash"/)
  })

  it('throws when the relay cannot be reached', async () => {
    pointAt('http://127.0.0.1:1')
    await expect(before(await plugin())).rejects.toThrow('The gate cannot be reached')
  })

  it('registers the marker and denies it to every agent', async () => {
    const hooks = await plugin()
    expect(Object.keys(hooks.tool)).toEqual(['gantry_gate_x'])
    const config = { permission: { '*': 'allow', question: 'deny' } }
    await hooks['config']?.(config, undefined)
    expect(JSON.stringify(config.permission)).toBe(
      '{"*":"allow","question":"deny","gantry_gate_x":"deny"}',
    )
  })

  it('gives bash the real home and neither password nor token', async () => {
    const output = { env: { KEEP: '1' } as Record<string, string> }
    await (await plugin())['shell.env']?.({}, output)
    expect(output.env).toMatchObject({
      KEEP: '1',
      HOME: '/h',
      SANDBOX_MCP_AUTH_TOKEN: '',
      OPENCODE_SERVER_PASSWORD: '',
    })
  })

  it('tells OpenCode which arguments are required', async () => {
    const output = { jsonSchema: { required: ['folder'] } }
    await (await plugin())['tool.definition']?.({ toolID: 'verify' }, output)
    expect(output.jsonSchema.required).toEqual([])
  })
})
