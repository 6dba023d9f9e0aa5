import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { type CommandBody, UpMessage } from '../../src/contract/link.ts'
import type { Boot, Manifest } from '../../src/contract/manifest.ts'
import { findMarked } from '../../sandbox-agent/processes.ts'
import { makeRepository, newAttempt, operationOf, planOf } from './execute-kit.ts'
import { type Peer, serveSockets } from './socket-server.ts'

const agentFile = new URL('../../sandbox-agent/main.ts', import.meta.url).pathname

/** As much of OpenCode as an agent needs to become ready. */
const standIn = `
import { createServer } from 'node:http'
const server = createServer((request, response) => {
  if (!request.headers.authorization) return response.writeHead(401).end()
  if (request.url === '/event') return response.writeHead(200).write(': hello\\n\\n')
  response.end(request.url === '/experimental/tool/ids' ? '["marker"]' : '{"version":"0"}')
})
server.listen(0, '127.0.0.1', () =>
  console.log('listening on http://127.0.0.1:' + server.address().port))
`

function makeOpenCode(root: string): string {
  writeFileSync(join(root, 'opencode.mjs'), standIn)
  const path = join(root, 'opencode')
  writeFileSync(path, `#!/bin/sh\nexec '${process.execPath}' '${root}/opencode.mjs'\n`)
  chmodSync(path, 0o755)
  return path
}

/** A control plane that hands out a manifest and notes what the agent says, and the real agent. */
async function setUp() {
  const { root, place, git } = makeRepository()
  const manifest: Manifest = {
    version: '0'.repeat(64),
    layout: {
      home: place.home,
      workspace: place.workspace,
      configDir: join(root, 'config'),
      envFile: join(root, 'env.json'),
      hostname: '127.0.0.1',
      port: 0,
    },
    files: [],
    absent: [],
    environment: { HOME: place.home },
    marker: 'marker',
    toolIds: [],
    model: 'a/b',
    trustProjectConfig: false,
  }
  const uploads: string[] = []
  const seen: UpMessage[] = []
  let peer: Peer | undefined
  /** Sent again with every hello, as a control plane does until a result has come. */
  const open = new Map<string, object>()
  const server = await serveSockets(
    (text, from) => {
      if (text === 'ping') return
      const message = UpMessage.parse(JSON.parse(text))
      seen.push(message)
      if (message.t === 'events') from.send({ t: 'ack', seq: message.items.at(-1)?.seq })
      if (message.t === 'result') from.send({ t: 'resultAck', commandId: message.commandId })
      if (message.t === 'result') open.delete(message.commandId)
      if (message.t !== 'hello') return
      peer = from
      from.send({ t: 'welcome', protocol: 1, ackedSeq: 0 })
      for (const command of open.values()) from.send(command)
    },
    (request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const content = Buffer.concat(chunks)
        if (request.method === 'PUT') uploads.push(content.toString())
        const sha256 = createHash('sha256').update(content).digest('hex')
        const answers: Record<string, object> = {
          manifest,
          env: { values: {}, files: [] },
          artifacts: { sha256, size: content.length },
        }
        response.end(JSON.stringify(answers[request.url?.split('/').at(-1) ?? '']))
      })
    },
  )
  const boot: Boot = {
    gatewayUrl: server.url.replace('ws:', 'http:'),
    sessionId: 'ses_test',
    generation: Number(process.hrtime.bigint() % 1_000_000_000n),
    token: `x.${Buffer.from(JSON.stringify({ exp: 9_999_999_999 })).toString('base64url')}.x`,
    stateDir: join(root, 'state'),
    opencode: makeOpenCode(root),
    path: [],
    ...place.owner,
    mark: 'test',
  }
  mkdirSync(boot.stateDir)
  const start = (): ChildProcess => {
    const agent = spawn(process.execPath, [agentFile], { stdio: ['pipe', 'ignore', 'ignore'] })
    agent.stdin?.end(JSON.stringify(boot))
    onTestFinished(() => void agent.kill('SIGKILL'))
    return agent
  }
  const send = (id: string, kind: 'execute' | 'merge' | 'stop', body: object) => {
    const command = { t: 'command', id, kind, body }
    open.set(id, command)
    peer?.send(command)
  }
  const resultOf = (id: string) =>
    vi.waitFor(() => {
      const found = seen.find((message) => message.t === 'result' && message.commandId === id)
      expect(found).toBeDefined()
      return found as Extract<UpMessage, { t: 'result' }>
    }, 30_000)
  const readies = () => seen.filter((message) => message.t === 'ready')
  const left = () =>
    findMarked({ mark: `GANTRY_SANDBOX=ses_test.${boot.generation}`, uid: undefined })
  onTestFinished(() => {
    for (const pid of left()) process.kill(pid, 'SIGKILL')
  })
  return { place, git, uploads, seen, start, send, resultOf, readies, left }
}

const bodyOf = (
  operation: string,
  fields: object,
  strategy: 'process-sandbox' | 'git-worktree',
): CommandBody<'execute'> => ({
  attemptId: newAttempt(),
  operation: operationOf(operation, fields),
  plan: planOf(strategy),
})

// Each starts several processes of Node, which takes its time on a busy machine.
describe('an agent', { timeout: 90_000 }, () => {
  it('[EXEC25] says what it enforces when it is ready, and carries out and merges over the link', async () => {
    const { place, git, uploads, start, send, resultOf, readies, left } = await setUp()
    const agent = start()
    await vi.waitFor(() => expect(readies()).toHaveLength(1), 30_000)
    expect(readies()[0]).toMatchObject({ enforces: expect.arrayContaining(['time', 'real-path']) })
    send('c1', 'execute', bodyOf('run', { command: 'echo told; sleep 90 &' }, 'process-sandbox'))
    expect(await resultOf('c1')).toMatchObject({
      ok: true,
      data: { status: 'succeeded', output: 'told\n' },
    })
    const edit = bodyOf('write-file', { targetPath: 'x', content: 'x\n' }, 'git-worktree')
    const branch = `gantry/${edit.attemptId}`
    send('c2', 'execute', edit)
    expect(await resultOf('c2')).toMatchObject({ ok: true, data: { branch } })
    expect(uploads[0]).toContain('+x')
    send('c3', 'merge', { attemptId: edit.attemptId, branch })
    expect(await resultOf('c3')).toMatchObject({ ok: true, data: { merged: true } })
    expect(git('show', 'HEAD:x')).toBe('x')
    expect(existsSync(join(place.workspace, 'x'))).toBe(true)
    send('c4', 'stop', { reason: 'test' })
    await vi.waitFor(() => expect(agent.exitCode).toBe(0), 30_000)
    expect(left()).toEqual([])
  })

  it('[EXEC22] killed in the middle of an operation its successor says so, and nothing runs on', async () => {
    const { place, start, send, resultOf, readies, left } = await setUp()
    const first = start()
    await vi.waitFor(() => expect(readies()).toHaveLength(1), 30_000)
    send('c1', 'execute', bodyOf('run', { command: 'touch begun; sleep 91' }, 'process-sandbox'))
    await vi.waitFor(() => expect(existsSync(join(place.workspace, 'begun'))).toBe(true), 30_000)
    first.kill('SIGKILL')
    start()
    expect(await resultOf('c1')).toMatchObject({ ok: true, data: { status: 'unknown' } })
    // What is left is the new OpenCode alone.
    await vi.waitFor(() => expect(left()).toHaveLength(1), 30_000)
    send('c2', 'execute', bodyOf('run', { command: 'echo again' }, 'process-sandbox'))
    expect(await resultOf('c2')).toMatchObject({ data: { output: 'again\n' } })
  })
})
