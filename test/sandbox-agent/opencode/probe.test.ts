import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type Enclosure, openEnclosure } from '../../../sandbox-agent/enclosure/enclosure.ts'
import { OpenCode } from '../../../sandbox-agent/opencode/opencode.ts'
import { opencodeDouble } from './opencode-double.ts'

/** OpenCode listens, and so many of the questions for its tools fail. Gives when they were asked, and how it ended. */
async function probe(
  failures: number,
): Promise<{ waits: number[]; limits: number[]; end: string }> {
  const asked: number[] = []
  const limits = vi.spyOn(AbortSignal, 'timeout')
  vi.useFakeTimers({ toFake: ['setTimeout', 'Date'] })
  const server = createServer((request, response) => {
    response.setHeader('connection', 'close')
    const { url = '', headers } = request
    if (headers.authorization === undefined) return response.writeHead(401).end()
    if (url.endsWith('/event')) return response.writeHead(200).flushHeaders()
    if (!url.endsWith('/tool/ids')) return response.end('{"version": "0"}')
    asked.push(Date.now())
    if (asked.length <= failures) return request.socket.destroy()
    response.end('["marker", "verify"]')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  let connections = 0
  const open = openEnclosure(undefined, '')
  const enclosure: Enclosure = {
    ...open,
    launch: (command) => ({
      ...open.launch(command),
      connect: () => {
        connections += 1
        return connect(port, '127.0.0.1').once('close', () => (connections -= 1))
      },
    }),
  }
  onTestFinished(() => {
    vi.useRealTimers()
    limits.mockRestore()
    server.closeAllConnections()
    server.close()
  })
  const { root, binary, manifest } = opencodeDouble()
  const startedAt = Date.now()
  let end: string | undefined
  void OpenCode.start({
    ...{ binary, manifest, environment: {}, enclosure, masks: [] },
    logFile: join(root, 'opencode.log'),
    onEvent: () => undefined,
    onExit: () => undefined,
  }).then(
    (opencode) => {
      opencode.kill()
      end = 'ready'
    },
    (error: Error) => (end = `${error.message} after ${Date.now() - startedAt} ms`),
  )
  while (end === undefined) {
    await new Promise(setImmediate)
    // Time stands while somebody asks.
    if (asked.length > 0 && connections === 0) await vi.advanceTimersByTimeAsync(1)
  }
  const waits = asked.slice(1).map((at, index) => at - (asked[index] ?? 0))
  return { waits, limits: limits.mock.calls.map(([ms]) => ms), end }
}

test('[BOX6] it is asked again after 200 ms, then each time after 1.5 times as long, at most 2 s', async () => {
  const { waits, limits, end } = await probe(8)
  expect(end).toBe('ready')
  const expected = [200, 300, 450, 675, 1012, 1518, 2000, 2000]
  expect(waits).toHaveLength(expected.length)
  for (const [index, ms] of expected.entries())
    expect(Math.abs((waits[index] ?? 0) - ms)).toBeLessThan(3)
  // Whether it lets strangers in is one short question; the tools are loaded by the first that asks for them.
  expect(limits).toContain(500)
})

test('[BOX6] it is given up 30 s after its start', async () => {
  const { end, waits } = await probe(1000)
  const ms = Number(/^OpenCode is not ready: .+ after (\d+) ms$/.exec(end)?.[1])
  expect(ms).toBeGreaterThan(28_000)
  expect(ms).toBeLessThanOrEqual(30_000)
  expect(Math.max(...waits)).toBe(2000)
})
