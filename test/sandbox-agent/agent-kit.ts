import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, vi } from 'vitest'
import { type CommandKind, UpMessage } from '../../src/contract/link.ts'
import type { Boot, Manifest } from '../../src/contract/manifest.ts'
import { findMarked } from '../../sandbox-agent/marked-processes.ts'
import { signalProcess } from '../../local/processes/processes.ts'
import { makeRepository } from './execute/execute-kit.ts'
import { type Peer, serveSockets } from './link/socket-server.ts'

const agentFile = new URL('../../sandbox-agent/main.ts', import.meta.url).pathname

/**
 * As much of OpenCode as an agent needs to become ready and to send a prompt. It is busy for ever after one; what it was
 * sent is in a file of its home, with a name of this process.
 */
const standIn = `
import { randomUUID } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
let busy = false
const by = randomUUID()
const server = createServer((request, response) => {
  if (!request.headers.authorization) return response.writeHead(401).end()
  if (request.url.endsWith('/event')) return response.writeHead(200).write(': hello\\n\\n')
  let text = ''
  request.on('data', (chunk) => (text += chunk))
  request.on('end', () => {
    const isPrompt = request.url.endsWith('/prompt_async')
    if (isPrompt) busy = true
    if (isPrompt) appendFileSync(process.env.HOME + '/prompts.jsonl', JSON.stringify({ by, text }) + '\\n')
    if (request.url.includes('/message/')) return response.writeHead(404).end()
    if (/(message|children)$/.test(request.url)) return response.end('[]')
    if (request.url === '/session/status') return response.end(busy ? '{"ses_1":{"type":"busy"}}' : '{}')
    if (request.url === '/experimental/tool/ids') return response.end('["marker"]')
    response.end('{"version":"0","id":"ses_1"}')
  })
})
server.listen(0, '127.0.0.1', () =>
  console.log('listening on http://127.0.0.1:' + server.address().port))
`

function makeOpenCode(root: string): string {
  const folder = join(root, 'bin')
  mkdirSync(folder)
  writeFileSync(join(folder, 'opencode.mjs'), standIn)
  const path = join(folder, 'opencode')
  writeFileSync(path, `#!/bin/sh\nexec '${process.execPath}' '${folder}/opencode.mjs'\n`)
  chmodSync(path, 0o755)
  return path
}

/** A control plane that hands out a manifest and notes what the agent says, and the real agent. */
export async function startAgent(options: Pick<Boot, 'patience'> = {}) {
  const { root, site, git } = makeRepository()
  const manifest: Manifest = {
    version: '0'.repeat(64),
    layout: {
      home: site.home,
      workspace: site.workspace,
      configDir: join(root, 'config'),
      envFile: join(root, 'tmp', 'env.json'),
      hostname: '127.0.0.1',
      port: 0,
    },
    files: [],
    absent: [],
    environment: { HOME: site.home },
    marker: 'marker',
    toolIds: [],
    model: 'a/b',
    trustProjectConfig: false,
  }
  const uploads: string[] = []
  const seen: UpMessage[] = []
  let peer: Peer | undefined
  let acked = 0
  /** Sent again with every hello, as a control plane does until a result has come. */
  const open = new Map<string, object>()
  const server = await serveSockets(
    (text, from) => {
      if (text === 'ping') return
      const message = UpMessage.parse(JSON.parse(text))
      seen.push(message)
      if (message.t === 'events') {
        acked = Math.max(acked, message.items.at(-1)?.seq ?? 0)
        from.send({ t: 'ack', seq: acked })
      }
      if (message.t === 'result') from.send({ t: 'resultAck', commandId: message.commandId })
      if (message.t === 'result') open.delete(message.commandId)
      if (message.t !== 'hello') return
      peer = from
      from.send({ t: 'welcome', protocol: 2, ackedSeq: acked })
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
    ...site.owner,
    mark: 'test',
    ...options,
  }
  mkdirSync(boot.stateDir)
  mkdirSync(join(root, 'tmp'))
  const start = (): ChildProcess => {
    const agent = spawn(process.execPath, [agentFile], { stdio: ['pipe', 'ignore', 'ignore'] })
    agent.stdin?.end(JSON.stringify(boot))
    onTestFinished(() => void agent.kill('SIGKILL'))
    return agent
  }
  const send = (id: string, kind: CommandKind, body: object) => {
    const command = { t: 'command', id, kind, body }
    open.set(id, command)
    peer?.send(command)
  }
  const resultOf = (id: string) =>
    vi.waitFor(() => {
      const found = seen.find((message) => message.t === 'result' && message.commandId === id)
      expect(found).toBeDefined()
      return found as Extract<UpMessage, { t: 'result' }>
    }, 240_000)
  const readies = () => seen.filter((message) => message.t === 'ready')
  const left = () =>
    findMarked({ mark: `GANTRY_SANDBOX=ses_test.${boot.generation}`, uid: undefined })
  onTestFinished(() => {
    for (const pid of left()) signalProcess(pid, 'SIGKILL') // it may have ended since it was listed
  })
  const endOf = (turnId: string) =>
    vi.waitFor(() => {
      const events = seen.flatMap((message) => (message.t === 'events' ? message.items : []))
      const end = events.find(
        ({ kind, data }) => kind === 'turn.ended' && data['turnId'] === turnId,
      )
      expect(end).toBeDefined()
      return end?.data
    }, 240_000)
  const promptsFile = join(site.home, 'prompts.jsonl')
  const prompts = () =>
    (existsSync(promptsFile) ? readFileSync(promptsFile, 'utf8') : '')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { by: string; text: string })
  /** As this machine counts: inside an enclosure it has another one. */
  const opencodePid = () => {
    const isIt = (pid: number) => /^\S+node\0\S+opencode\.mjs\0/.test(commandLine(pid))
    const found = left().find(isIt)
    if (found === undefined) throw new Error('OpenCode does not run')
    return found
  }
  return {
    opencodePid,
    site,
    git,
    uploads,
    seen,
    start,
    send,
    resultOf,
    endOf,
    prompts,
    readies,
    left,
  }
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
