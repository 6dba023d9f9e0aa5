import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestAgent } from '../support/agent.ts'
import { type FakeSandboxHost, startFakeSandboxHost } from '../support/sandbox-host.ts'
import { type Host, until, useStack } from '../support/stack.ts'

// A host with a certificate of an authority that nobody knows but the operator, who names its file by the variable of the
// runtime: DENO_CERT, or NODE_EXTRA_CA_CERTS for `npm start`.
const folder = mkdtempSync(join(tmpdir(), 'gantry-tls-'))
const authority = join(folder, 'ca.pem')
const value = 'tok-0123456789abcdef'
const received: string[] = []
let server: Server
let port: number

beforeAll(async () => {
  makeCertificates()
  server = createServer(
    { key: readFileSync(join(folder, 'key.pem')), cert: readFileSync(join(folder, 'cert.pem')) },
    (request, response) => {
      received.push(`${request.url} ${request.headers.authorization}`)
      response.end(`over TLS with ${request.headers.authorization}`)
    },
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ;({ port } = server.address() as AddressInfo)
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
  rmSync(folder, { recursive: true })
})

function makeCertificates(): void {
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl(
    'req',
    '-x509',
    ...key,
    '-days',
    '2',
    '-subj',
    '/CN=own',
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
  )
  openssl('req', ...key, '-subj', '/CN=localhost', '-keyout', 'key.pem', '-out', 'request.pem')
  writeFileSync(join(folder, 'names'), 'subjectAltName=DNS:localhost\n')
  const signs = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'names']
  openssl('x509', '-req', '-in', 'request.pem', ...signs, '-days', '2', '-out', 'cert.pem')
}

const kinds: Host[] = process.env['GANTRY_LONG'] === '1' ? ['deno', 'miniflare'] : ['deno']

describe.each(kinds)('a host that is reached by TLS, on %s', (kind) => {
  describe.each([true, false])('whose authority is trusted: %s', (isTrusted) => {
    let sandboxHost: FakeSandboxHost
    const before = process.env['NODE_EXTRA_CA_CERTS']
    const stack = useStack(kind, async () => {
      sandboxHost = await startFakeSandboxHost()
      if (kind === 'miniflare' && isTrusted) process.env['NODE_EXTRA_CA_CERTS'] = authority
      else delete process.env['NODE_EXTRA_CA_CERTS']
      return {
        env: {
          ...sandboxHost.env,
          GANTRY_PRIVATE_HOSTS: `localhost:${port}`,
          ...(kind === 'deno' && isTrusted && { DENO_CERT: authority }),
        },
      }
    })
    afterAll(() => {
      if (before !== undefined) process.env['NODE_EXTRA_CA_CERTS'] = before
      sandboxHost.close()
    })

    test('[SEC13] gets the secret over TLS, and over nothing else', async () => {
      received.length = 0
      const made = await stack().api('POST', '/v1/configurations', { name: `tls-${isTrusted}` })
      const configurationId = made.json.id as string
      const secret = { value, configurationId, inject: { hosts: [`localhost:${port}`] } }
      expect((await stack().api('PUT', '/v1/secrets/TOKEN', secret)).status).toBe(200)
      const session = await stack().createSession({ sandbox: 'local', configurationId })
      await until(() => sandboxHost.running.has(`${session.id}.1`))
      const token = await stack().token(session)
      const agent = TestAgent.dial(stack().url, session.id, token)
      await agent.greet()
      const { json: turn } = await stack().api('POST', `/v1/sessions/${session.id}/prompts`, {
        text: 'x',
      })
      expect(turn.state).toBe('running')
      const answer = await fetch(`${stack().url}/upstreams/localhost%3A${port}/a?b=c`, {
        headers: { authorization: `Bearer ${token}` },
      })
      const text = await answer.text()
      expect(text).not.toContain(value)
      if (isTrusted) {
        expect([answer.status, text]).toEqual([200, 'over TLS with [secret:TOKEN]'])
        expect(received).toEqual([`/a?b=c Bearer ${value}`])
      } else {
        expect(answer.status).toBe(503)
        expect(received).toEqual([])
      }
    })
  })
})
