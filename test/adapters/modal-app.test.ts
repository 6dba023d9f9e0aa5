import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import {
  createModalApp,
  importKey,
  modalAppHeaders,
} from '../../src/adapters/sandboxes/modal-app.ts'
import { createModalSandboxes } from '../../src/adapters/sandboxes/modal.ts'
import { errorCodeOf } from '../../src/contract/error.ts'
import { whyNoPython } from '../support/modal-double.ts'
import { modalFolder, shapeFault, shapes } from '../support/modal-shapes.ts'
import { sandboxSpec } from '../support/sandbox-spec.ts'

const whyNot = whyNoPython()
const withPython = test.skipIf(whyNot !== null)
const reason = whyNot === null ? '' : ` (not here: ${whyNot})`
const secret = 'a-shared-secret-of-both'
const sessionId = `ses_${'1'.repeat(30)}`
const organisationId = `org_${'1'.repeat(20)}`
const info = { sessionId, generation: 1, state: 'running', reason: null, startedAt: 5 }

interface Asked {
  path: string
  body: unknown
  headers: IncomingMessage['headers']
}

/** A server that answers everything so. */
async function serve(answer: (response: ServerResponse) => void) {
  const asked: Asked[] = []
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      asked.push({
        path: request.url ?? '',
        body: JSON.parse(body) as unknown,
        headers: request.headers,
      })
      answer(response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, asked, provider: createModalSandboxes({ url, secret, deploymentLabel: 'test' }) }
}

const json = (status: number, body: object) => (response: ServerResponse) =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
const refusal = (status: number, code: string, message = 'Said so') =>
  json(status, { error: { code, message } })

describe('the Python app', () => {
  withPython(`[MODAL1] every file of it can be parsed${reason}`, () => {
    const files = readdirSync(modalFolder, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.py'))
      .map((path) => join(modalFolder, path))
    expect(files.length).toBeGreaterThan(5)
    const parse = 'import ast, sys; [ast.parse(open(path).read(), path) for path in sys.argv[1:]]'
    execFileSync('python3', ['-c', parse, ...files])
  })

  withPython(`[MODAL1] its own checks pass${reason}`, () => {
    const { status, stderr } = spawnSync('python3', ['-B', '-m', 'unittest', 'checks'], {
      cwd: modalFolder,
      encoding: 'utf8',
    })
    expect(stderr).toMatch(/Ran \d\d+ tests/)
    expect(status, stderr).toBe(0)
  })

  test('[MODAL1] only two of its files need Modal', () => {
    const folder = join(modalFolder, 'gantry_modal')
    const needing = readdirSync(folder)
      .filter((name) => name.endsWith('.py'))
      .filter((name) => /^(import|from) modal/m.test(readFileSync(join(folder, name), 'utf8')))
    expect(needing.sort()).toEqual(['sandboxes.py', 'snapshots.py'])
  })
})

describe('requests', () => {
  const vectors = JSON.parse(readFileSync(join(modalFolder, 'vectors.json'), 'utf8')) as Record<
    'secret' | 'method' | 'path' | 'body' | 'time' | 'nonce' | 'signature',
    string
  >[]

  test.each(vectors)('[MODAL2] $method $path is signed as the app verifies it', async (vector) => {
    const key = await importKey(new TextEncoder().encode(vector.secret))
    const { method, path, body, time, nonce, signature } = vector
    expect(await modalAppHeaders(key, method, path, body, time, nonce)).toEqual({
      'x-gantry-time': time,
      'x-gantry-nonce': nonce,
      'x-gantry-signature': signature,
    })
  })

  test('[MODAL2] each has the time of now and another nonce', async () => {
    const { provider, asked } = await serve(json(200, info))
    await provider.get(sessionId, 1)
    await provider.get(sessionId, 1)
    const nonces = asked.map(({ headers }) => headers['x-gantry-nonce'])
    expect(new Set(nonces).size).toBe(2)
    for (const { headers } of asked)
      expect(Math.abs(Number(headers['x-gantry-time']) - Date.now() / 1000)).toBeLessThan(30)
  })

  test('[MODAL3] each has the shape that the app defines, and nothing else is said', async () => {
    const { provider, asked } = await serve(json(500, {}))
    const snapshotId = `snp_${'2'.repeat(20)}`
    const limits = { memoryMb: 64, processes: 100, lifetimeSeconds: 60 }
    const repository = { url: 'https://git.example/x', ref: 'main', token: 'a-token' }
    const order = { organisationId, sessionId, generation: 1, snapshotId }
    const secrets = [{ name: 'A', value: 'a value of it' }]
    for (const work of [
      () => provider.create(sandboxSpec()),
      () => provider.create(sandboxSpec({ snapshotId, limits, image: 'acme/dev:v1' })),
      () => provider.create(sandboxSpec({ repository })),
      () => provider.get(sessionId, 1),
      () => provider.list(organisationId),
      () => provider.extend(sessionId, 1, 60),
      () => provider.stop(sessionId, 1),
      () => provider.snapshot({ ...order, secrets, generatedFiles: ['.env'] }),
      () => provider.deleteSnapshot(organisationId, snapshotId),
    ])
      await expect(work()).rejects.toMatchObject({ code: 'sandbox_unavailable' })
    await provider.check()
    for (const { path, body } of asked)
      expect(shapeFault(path.replace('/v1/', ''), 'request', body)).toBeNull()
    const used = new Set(asked.map(({ path }) => path.replace('/v1/', '')))
    expect([...used].sort()).toEqual(Object.keys(shapes.calls).sort())
  })

  test('[MODAL3] a secret is only in what is given by standard input', async () => {
    const { provider, asked } = await serve(json(500, {}))
    const repository = { url: 'https://git.example/x', ref: null, token: 'the-credential' }
    await provider.create(sandboxSpec({ repository })).catch(() => undefined)
    const [first] = asked as (Asked & { body: { launch: { script: string; input: string } } })[]
    if (first === undefined) throw new Error('Nothing was asked')
    const { launch, ...rest } = first.body
    expect(launch.input).toContain('the-credential')
    expect(launch.input).toContain('the-token-of-this-sandbox')
    expect(JSON.stringify([launch.script, rest])).not.toMatch(/the-credential|the-token-of/)
  })
})

describe('answers', () => {
  test('[MODAL4] only the app’s own word is a not-found', async () => {
    const ours = await serve(refusal(404, 'not_found'))
    expect(await ours.provider.get(sessionId, 1)).toBeNull()
    const theirs = await serve(notDeployedAnswer)
    const error = await theirs.provider.get(sessionId, 1).catch((reason: unknown) => reason)
    expect(errorCodeOf(error)).toBe('sandbox_unavailable')
    expect((error as Error).message).toContain('sandbox-agent/modal/README.md')
  })

  test.each([
    [refusal(401, 'unauthenticated'), /GANTRY_MODAL_SECRET/],
    [refusal(400, 'invalid_request'), /README/],
    [refusal(429, 'rate_limited'), /429/],
    [refusal(503, 'sandbox_unavailable'), /503: Said so/],
    [refusal(500, 'internal'), /500/],
    [refusal(418, 'teapot'), /418/],
    [json(404, { error: 'not_found' }), /no app of Gantry/],
    [json(429, {}), /429/],
    [json(200, { some: 'thing' }), /README/],
    [(response: ServerResponse) => void response.writeHead(200).end('<html>'), /README/],
    [
      (response: ServerResponse) => void response.writeHead(303, { location: '/x' }).end(),
      /longer than Modal waits/,
    ],
    [(response: ServerResponse) => void response.destroy(), /Cannot reach/],
    [
      (response: ServerResponse) => {
        response.writeHead(200, { 'content-length': '100' }).write('{')
        setTimeout(() => response.destroy(), 20)
      },
      /Cannot read/,
    ],
  ])(
    '[MODAL4] any other failure is an unavailable provider, with the reason: %#',
    async (answer, text) => {
      const { provider, asked } = await serve(answer)
      const error = await provider.list(organisationId).catch((reason: unknown) => reason)
      expect(errorCodeOf(error)).toBe('sandbox_unavailable')
      expect((error as Error).message).toMatch(text)
      expect((error as Error).message).not.toContain(secret)
      expect(asked).toHaveLength(1)
    },
  )

  test.each(['not_found', 'wrong_state', 'too_large', 'unprocessable'])(
    '[MODAL4] what the app says of the order itself is passed on: %s',
    async (code) => {
      const { provider } = await serve(refusal(409, code, 'The reason'))
      const error = await provider.extend(sessionId, 1, 5).catch((reason: unknown) => reason)
      expect([errorCodeOf(error), (error as Error).message]).toEqual([code, 'The reason'])
    },
  )

  test('[MODAL4] an app that does not answer in time is unavailable', async () => {
    const { url } = await serve(() => undefined)
    const ask = createModalApp({ url, secret })
    await expect(ask('list', {}, z.object({}), 30)).rejects.toMatchObject({
      code: 'sandbox_unavailable',
    })
  })

  test('[MODAL4] a snapshot of another session is refused', async () => {
    const taken = { sessionId: `ses_${'9'.repeat(30)}`, bytes: 5, scrubbed: null }
    const { provider } = await serve(json(200, taken))
    const order = { organisationId, sessionId, generation: 1, snapshotId: `snp_${'2'.repeat(20)}` }
    await expect(provider.snapshot({ ...order, secrets: [] })).rejects.toMatchObject({
      code: 'wrong_state',
    })
  })

  test('[MODAL4] what scrubbing says is redacted', async () => {
    const scrubbed = { exitCode: 1, stdout: '', stderr: 'cannot read /x/the-value-of-a' }
    const { provider } = await serve(json(200, { sessionId, bytes: null, scrubbed }))
    const order = { organisationId, sessionId, generation: 1, snapshotId: `snp_${'2'.repeat(20)}` }
    const secrets = [{ name: 'A', value: 'the-value-of-a' }]
    await expect(provider.snapshot({ ...order, secrets })).rejects.toMatchObject({
      code: 'sandbox_unavailable',
      message: 'Cannot take the snapshot: cannot read /x/[secret:A]',
    })
  })
})

describe('check', () => {
  const checked = { version: shapes.version, image: { name: 'img', found: true }, sandboxes: 2 }

  test('[MODAL5] everything works', async () => {
    const { provider } = await serve(json(200, checked))
    const checks = await provider.check()
    expect(checks.map(({ name, ok, hint }) => [name, ok, hint])).toEqual([
      ['app', true, null],
      ['version', true, null],
      ['image', true, null],
    ])
  })

  test.each([
    [json(200, { ...checked, version: 99 }), 'version', /Deploy/],
    [json(200, { ...checked, image: { name: 'img', found: false } }), 'image', /image\.py/],
    [notDeployedAnswer, 'app', /Deploy/],
    [refusal(401, 'unauthenticated'), 'app', /GANTRY_MODAL_SECRET/],
    [json(500, {}), 'app', /GANTRY_MODAL_URL/],
  ])('[MODAL5] what does not work has a hint: %#', async (answer, name, hint) => {
    const { provider } = await serve(answer)
    const failures = (await provider.check()).filter(({ ok }) => !ok)
    expect(failures.map((failure) => failure.name)).toEqual([name])
    expect(failures[0]?.hint).toMatch(hint)
  })
})

function notDeployedAnswer(response: ServerResponse): void {
  response.writeHead(404).end('modal-http: invalid function call')
}

test('[MODAL5] a label that Modal would not take is refused at once', () => {
  for (const deploymentLabel of ['', 'With Capitals', 'x'.repeat(41), 'a/b'])
    expect(() => createModalSandboxes({ url: 'http://x', secret, deploymentLabel })).toThrow(
      /label/,
    )
})
