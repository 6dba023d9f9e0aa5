import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { applyMigrations } from '../../local/database/migrations.ts'
import { startSqld } from '../../local/database/sqld.ts'
import { loadSecrets } from '../../local/state/secrets.ts'

declare module 'vitest' {
  interface ProvidedContext {
    bindings: Record<string, string>
  }
}

/** A libSQL server for the tests inside workerd, and the environment that a host would give. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stateDir = mkdtempSync(join(tmpdir(), 'gantry-workers-'))
  const sqld = await startSqld({ stateDir })
  await applyMigrations(sqld.url, sqld.token)
  const secrets = loadSecrets(stateDir)
  const line = await startLine(sqld.url)
  project.provide('bindings', {
    LIBSQL_URL: line.url,
    LIBSQL_TOKEN: sqld.token,
    GANTRY_ID_SECRET: secrets.idSecret,
    GANTRY_TOKEN_KEYS: secrets.tokenKeys,
    GANTRY_SEAL_KEYS: secrets.sealKeys,
    GANTRY_PUBLIC_URL: 'http://gantry.test',
    // Nobody listens there: a sandbox that is asked for cannot be had.
    SANDBOX_HOST_URL: 'http://127.0.0.1:9',
    SANDBOX_HOST_SECRET: 'none',
    SANDBOX_ROOT: '/nowhere',
    GANTRY_DEFAULT_SANDBOX: 'none',
  })
  return async () => {
    line.close()
    await sqld.stop()
    rmSync(stateDir, { recursive: true, force: true })
  }
}

/** Between workerd and libSQL. Tests inside workerd cannot stop a server, but they can ask for `/test/away`. */
async function startLine(target: string): Promise<{ url: string; close(): void }> {
  let away = false
  const server = createServer((request, response) => {
    const order = /^\/test\/(away|back)$/.exec(request.url ?? '')?.[1]
    if (order) {
      away = order === 'away'
      response.end()
      return
    }
    // A refusal that the client does not take for a server that is only busy.
    if (away) {
      response.writeHead(403).end()
      return
    }
    const body: Buffer[] = []
    request.on('data', (chunk: Buffer) => body.push(chunk))
    request.on('end', () => {
      const { authorization = '', 'content-type': type = 'application/json' } = request.headers
      fetch(`${target}${request.url}`, {
        method: request.method ?? 'POST',
        headers: { authorization, 'content-type': type },
        ...(body.length > 0 ? { body: Buffer.concat(body) } : {}),
      })
        .then(async (answer) => {
          response.writeHead(answer.status, {
            'content-type': answer.headers.get('content-type') ?? 'text/plain',
          })
          response.end(Buffer.from(await answer.arrayBuffer()))
        })
        .catch(() => request.socket.destroy())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}
