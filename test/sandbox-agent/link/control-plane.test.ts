import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { type ErrorCode, errorTable } from '../../../src/contract/error.ts'
import type { Boot } from '../../../src/contract/manifest.ts'
import { ControlPlane } from '../../../sandbox-agent/link/control-plane.ts'
import { Token } from '../../../sandbox-agent/link/token.ts'

const servers: { close(): void }[] = []
afterEach(() => servers.splice(0).forEach((server) => server.close()))

async function fencedBy(code: ErrorCode): Promise<[fenced: boolean, asked: string[]]> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.url} ${String(request.headers.upgrade)}`)
    response.writeHead(errorTable[code].status)
    response.end(JSON.stringify({ error: { code, message: 'No' } }))
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const gatewayUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const boot = { gatewayUrl, sessionId: 'ses_1' } as Boot
  return [await new ControlPlane(boot, new Token('t')).isFenced(), asked]
}

test.each([
  ['token_expired', true],
  ['old_generation', true],
  ['session_closed', true],
  ['not_found', true],
  // Let in, but for the upgrade.
  ['invalid_request', false],
  // A deployment whose signing keys are wrong for a moment must not end every agent.
  ['unauthenticated', false],
  ['rate_limited', false],
  ['storage_unavailable', false],
] as const)('[LINK8] refused with %s an agent ends: %s', async (code, ends) => {
  expect(await fencedBy(code)).toEqual([ends, ['/sandbox/ses_1/link undefined']])
})
