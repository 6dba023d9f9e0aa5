import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { binary } from '../../../local/binaries.ts'
import { type HostOptions, startHost } from '../../../local/host/host.ts'
import { findProcesses, killProcesses } from '../../../local/processes/processes.ts'
import { siteFolders } from '../../../local/users/sandbox-site.ts'
import { claimUids } from '../../../local/users/uids.ts'
import { createLocalSandboxes } from '../../../src/adapters/sandboxes/local.ts'
import type { SandboxInfo, SandboxSpec } from '../../../src/core/ports.ts'
import { sandboxSpec } from '../../support/sandbox-spec.ts'
import { tempDir, until } from '../support.ts'
import { asRoot, isRoot, needing } from '../../support/needs.ts'

const secret = 'a-secret-for-the-host'
const claim = isRoot ? claimUids() : undefined
afterAll(() => claim?.release())
const ids = Array.from({ length: 9 }, (_, index) => `ses_${String(index).repeat(30)}`)

/** Does what the address it is given says, so that a test can choose. */
const agent = `
import { spawn } from 'node:child_process'
import { writeFileSync, renameSync } from 'node:fs'
import { text } from 'node:stream/consumers'
const boot = JSON.parse(await text(process.stdin))
const mode = new URL(boot.gatewayUrl).pathname.slice(1)
writeFileSync(boot.stateDir + '/boot.new', JSON.stringify({ boot, env: process.env }))
renameSync(boot.stateDir + '/boot.new', boot.stateDir + '/boot.json')
if (mode === 'crash') {
  console.error('It was the token ' + boot.token)
  process.exit(3)
}
if (mode !== 'silent') console.error(JSON.stringify({ msg: 'ready' }))
if (mode === 'orphan') spawn('setsid', ['sleep', '60'], { detached: true, stdio: 'ignore' })
if (mode === 'deaf') process.on('SIGTERM', () => undefined)
else process.on('SIGTERM', () => process.exit(0))
setInterval(() => undefined, 1000)
`

async function host(overrides: Partial<HostOptions> = {}) {
  const folder = tempDir()
  const agentFile = join(folder, 'agent.mjs')
  writeFileSync(agentFile, agent)
  // A user of its own cannot pass through the closed temporary folder.
  const root = overrides.root ?? join(siteFolders(folder)[0] ?? '', 'sandboxes')
  mkdirSync(root, { recursive: true, mode: 0o711 })
  const started = await startHost({
    secret,
    root,
    stateDir: join(folder, 'agents'),
    mark: 'stk_hosttest',
    node: binary('node'),
    agentFile,
    localRepositories: [tmpdir()],
    opencode: binary('opencode'),
    path: [],
    ...(claim === undefined ? {} : { uids: [...claim.uids] as [number, number] }),
    stopGraceMs: 400,
    ...overrides,
  })
  onTestFinished(async () => {
    await started.close()
    if (overrides.root === undefined) execFileSync('rm', ['-rf', dirname(root)])
  })
  const ask = (method: string, path: string, body?: object, bearer = secret) =>
    fetch(`${started.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${bearer}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const put = async (spec: SandboxSpec) => {
    const response = await ask('PUT', `/sandboxes/${spec.sessionId}/${spec.generation}`, spec)
    return (await response.json()) as SandboxInfo
  }
  const get = async (id: string, generation = 1) => {
    const response = await ask('GET', `/sandboxes/${id}/${generation}`)
    return response.ok ? ((await response.json()) as SandboxInfo) : null
  }
  const running = (id: string) =>
    until(async () => (await get(id))?.state === 'running' && booted(id))
  const booted = (id: string) => existsSync(join(root, `${id}.1`, 'agent', 'boot.json'))
  return { ...started, ask, put, get, running, root, folder }
}

function spec(sessionId = ids[0] ?? '', mode = '', more: Partial<SandboxSpec> = {}): SandboxSpec {
  return sandboxSpec({ sessionId, gatewayUrl: `http://127.0.0.1:1/${mode}`, ...more })
}

const marked = (name: string) => findProcesses({ marks: [`GANTRY_SANDBOX=${name}`] })

test('[LOC10] the host refuses whoever does not show its secret', async () => {
  const { ask } = await host()
  for (const [method, path] of [
    ['GET', '/sandboxes'],
    ['PUT', `/sandboxes/${ids[0]}/1`],
    ['GET', '/'],
  ] as const) {
    expect((await ask(method, path, method === 'PUT' ? spec() : undefined, 'other')).status).toBe(
      401,
    )
  }
})

test('[LOC10] the host takes no path from a request', async () => {
  const { ask, root } = await host()
  const bad = ['/sandboxes/..%2f..%2fetc/1', `/sandboxes/${ids[0]}/0`, `/sandboxes/${ids[0]}/1/x`]
  for (const path of bad) expect((await ask('PUT', path, spec())).status).toBe(404)
  expect((await ask('PUT', `/sandboxes/${ids[1]}/1`, spec(ids[0]))).status).toBe(400)
  expect(readdirSync(root)).toEqual([])
})

test('[LOC3] twenty creates of one sandbox make one, also after its stop', async () => {
  const { ask, put, get, running, root } = await host()
  await Promise.all(Array.from({ length: 20 }, () => put(spec())))
  const id = ids[0] ?? ''
  await running(id)
  expect(marked(`${id}.1`)).toHaveLength(1)
  const list = (await (await ask('GET', '/sandboxes')).json()) as { items: SandboxInfo[] }
  expect(list.items).toMatchObject([
    { sessionId: id, generation: 1, state: 'running', reason: null },
  ])
  expect((await ask('DELETE', `/sandboxes/${id}/1`)).status).toBe(204)
  expect(await get(id)).toBeNull()
  expect(await put(spec())).toMatchObject({ state: 'exited', reason: 'stopped' })
  expect(marked(`${id}.1`)).toEqual([])
  expect(readdirSync(root)).toEqual([])
})

test('[LOC3] the provider creates, finds and stops through the host, and says so when the host is away', async () => {
  const { url, root, running, close } = await host()
  const provider = createLocalSandboxes({ hostUrl: url, secret, root })
  const id = ids[0] ?? ''
  expect(await provider.get(id, 1)).toBeNull()
  expect(await provider.create(spec(id))).toMatchObject({ sessionId: id, state: 'queued' })
  await running(id)
  expect(await provider.get(id, 1)).toMatchObject({ state: 'running' })
  expect(existsSync(provider.layout(id, 1).workspace)).toBe(true)
  await provider.stop(id, 1)
  await provider.stop(id, 1)
  expect(await provider.get(id, 1)).toBeNull()
  const stranger = createLocalSandboxes({ hostUrl: url, secret: 'other', root })
  await expect(stranger.get(id, 1)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
  await close()
  await expect(provider.get(id, 1)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
})

test('[LOC4] stopping ends a deaf agent, its setsid child and its folder; again is success', async () => {
  const { ask, put, running, root } = await host()
  for (const [id, mode] of [
    [ids[0] ?? '', 'deaf'],
    [ids[1] ?? '', 'orphan'],
  ] as const) {
    await put(spec(id, mode))
    await running(id)
    await until(() => marked(`${id}.1`).length === (mode === 'orphan' ? 2 : 1))
    expect((await ask('DELETE', `/sandboxes/${id}/1`)).status).toBe(204)
    expect(marked(`${id}.1`)).toEqual([])
    expect(existsSync(join(root, `${id}.1`))).toBe(false)
    expect((await ask('DELETE', `/sandboxes/${id}/1`)).status).toBe(204)
  }
})

// Root may remove anything.
needing(!isRoot, 'a user who is not root')(
  '[LOC4] folders that even their owner may not write to go, too',
  async () => {
    const { ask, put, running, root } = await host()
    const id = ids[0] ?? ''
    await put(spec(id))
    await running(id)
    const modules = join(root, `${id}.1`, 'home', 'go', 'pkg', 'mod')
    mkdirSync(modules, { recursive: true })
    writeFileSync(join(modules, 'file'), '')
    chmodSync(modules, 0o555)
    expect((await ask('DELETE', `/sandboxes/${id}/1`)).status).toBe(204)
    expect(existsSync(join(root, `${id}.1`))).toBe(false)
  },
)

test('[LOC5] a host that starts again ends what an earlier one left, and says so', async () => {
  const first = await host()
  const id = ids[0] ?? ''
  await first.put(spec(id, 'orphan'))
  await first.running(id)
  await until(() => marked(`${id}.1`).length === 2)
  const second = await host({ root: first.root })
  expect(marked(`${id}.1`)).toEqual([])
  const ended = { state: 'exited', reason: 'The sandbox host was restarted' }
  expect(await second.get(id)).toMatchObject(ended)
  expect(await second.put(spec(id))).toMatchObject(ended)
  expect(marked(`${id}.1`)).toEqual([])
})

test('[LOC8] an agent that ends is reported with its last words, without the secrets in them', async () => {
  const { put, get, folder } = await host()
  const id = ids[0] ?? ''
  await put(spec(id, 'crash'))
  const info = await until(async () => {
    const found = await get(id)
    return found?.state === 'exited' ? found : null
  })
  expect(info.reason).toBe('The agent ended with exit code 3:\nIt was the token [secret]')
  expect(readFileSync(join(folder, 'agents', `${id}.1.log`), 'utf8')).toBe(
    'It was the token [secret]\n',
  )
})

test('[LOC9] no more sandboxes boot at once than there are places; waiting too long is an end', async () => {
  const { ask, put, get, running, root } = await host({ bootSlots: 1, queueDeadlineMs: 1500 })
  const [one = '', two = '', three = ''] = ids
  await put(spec(one, 'silent'))
  await running(one)
  await put(spec(two))
  await until(
    () =>
      existsSync(join(root, `${two}.1`, 'workspace', '.git')) && marked(`${two}.1`).length === 0,
  )
  expect(await get(two)).toMatchObject({ state: 'queued', reason: null })
  await ask('DELETE', `/sandboxes/${one}/1`)
  await running(two)
  await put(spec(three, 'silent'))
  await running(three)
  const four = ids[3] ?? ''
  await put(spec(four))
  await until(async () => (await get(four))?.state === 'exited')
  expect((await get(four))?.reason).toContain('No place to boot within 1.5 s')
})

test.each(['right', 'forbidden', 'nonsense', 'silent'] as const)(
  '[LOC23] the agent is given the manifest only if the control plane answers with one: %s',
  async (how) => {
    const manifest = {
      version: '0'.repeat(64),
      layout: { home: '', workspace: '', configDir: '', envFile: '', hostname: '', port: 0 },
      files: [],
      absent: [],
      environment: {},
      marker: 'gantry_gate_x',
      toolIds: [],
      model: 'a/b',
      trustProjectConfig: false,
    }
    const { put, running, root } = await host()
    const id = ids[0] ?? ''
    const seen: unknown[] = []
    const plane = createServer((request, response) => {
      seen.push([request.url, request.headers.authorization])
      if (how === 'silent') return
      response.statusCode = how === 'forbidden' ? 403 : 200
      response.end(JSON.stringify(how === 'nonsense' ? { version: 1 } : manifest))
    }).listen(0, '127.0.0.1')
    await until(() => plane.listening)
    onTestFinished(() => plane.closeAllConnections())
    const gatewayUrl = `http://127.0.0.1:${(plane.address() as AddressInfo).port}`
    await put(spec(id, '', { gatewayUrl, token: 'the-token' }))
    await running(id)
    expect(seen).toEqual([[`/sandbox/${id}/manifest`, 'Bearer the-token']])
    const { boot } = JSON.parse(
      readFileSync(join(root, `${id}.1`, 'agent', 'boot.json'), 'utf8'),
    ) as { boot: { manifest?: object } }
    expect(boot.manifest).toEqual(how === 'right' ? manifest : undefined)
    plane.close()
  },
)

test('[LOC24] an agent whose files cannot be made is ended without having been told anything', async () => {
  const { put, get, root, folder } = await host()
  const id = ids[0] ?? ''
  await put(spec(id, '', { snapshotId: `snp_${'0'.repeat(20)}` }))
  const ended = await until(async () => {
    const info = await get(id)
    return info?.state === 'exited' ? info : null
  })
  expect(ended.reason).toContain('not found')
  await until(() => marked(`${id}.1`).length === 0)
  expect(existsSync(join(root, `${id}.1`, 'agent', 'boot.json'))).toBe(false)
  expect(readFileSync(join(folder, 'agents', `${id}.1.log`), 'utf8')).toBe('')
})

test('[LOC4] a workspace is a git repository with a commit, or a clone at the ref', async () => {
  const { put, get, running, root } = await host()
  const git = (cwd: string, ...args: string[]) =>
    execFileSync(
      'git',
      ['-c', 'safe.directory=*', '-c', 'user.name=a', '-c', 'user.email=a@b', ...args],
      {
        cwd,
        encoding: 'utf8',
      },
    ).trim()
  const source = tempDir()
  git(source, 'init', '-q', '-b', 'main')
  writeFileSync(join(source, 'README'), 'one')
  mkdirSync(join(source, '.git', 'hooks'), { recursive: true })
  git(source, 'add', '.')
  git(source, 'commit', '-qm', 'One')
  git(source, 'tag', 'v1')
  writeFileSync(join(source, 'README'), 'two')
  git(source, 'commit', '-qam', 'Two')
  const owner = statSync(join(source, '.git', 'objects')).uid

  const [empty = '', clone = '', tag = '', missing = '', nasty = ''] = ids
  await put(spec(empty))
  await put(spec(clone, '', { repository: { url: source, ref: null, token: null } }))
  await put(spec(tag, '', { repository: { url: `file://${source}`, ref: 'v1', token: null } }))
  await put(spec(missing, '', { repository: { url: source, ref: 'nope', token: null } }))
  await put(
    spec(nasty, '', {
      repository: { url: `ext::sh -c touch% ${source}/pwned`, ref: null, token: null },
    }),
  )
  const workspace = (id: string) => join(root, `${id}.1`, 'workspace')
  await running(empty)
  expect(git(workspace(empty), 'log', '--format=%s')).toBe('Initial commit')
  await running(clone)
  expect(git(workspace(clone), 'log', '--format=%s')).toBe('Two\nOne')
  await running(tag)
  expect(readFileSync(join(workspace(tag), 'README'), 'utf8')).toBe('one')
  for (const id of [missing, nasty]) await until(async () => (await get(id))?.state === 'exited')
  expect((await get(missing))?.reason).toContain('git checkout')
  expect((await get(nasty))?.reason).toContain('Cannot clone over')
  expect(existsSync(join(source, 'pwned'))).toBe(false)
  expect(statSync(join(source, '.git', 'objects')).uid).toBe(owner)
})

/** A private repository behind git's own HTTP server, which wants a name and a password. */
async function privateRepository(token: string): Promise<string> {
  const folder = tempDir()
  const run = (...args: string[]) => execFileSync('git', args, { cwd: folder, stdio: 'pipe' })
  run('init', '-q', '--bare', 'repo.git')
  const server = createServer((request, response) => {
    const wanted = `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`
    if (request.headers.authorization !== wanted) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' })
      response.end()
      return
    }
    const [path = '', query = ''] = (request.url ?? '').split('?')
    const child = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env['PATH'],
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: path,
        QUERY_STRING: query,
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
    })
    request.pipe(child.stdin)
    const chunks: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
    child.on('close', () => {
      const output = Buffer.concat(chunks)
      const end = output.indexOf('\r\n\r\n')
      const headers = output.subarray(0, end).toString().split('\r\n')
      response.writeHead(
        200,
        Object.fromEntries(headers.map((line) => line.split(': ') as [string, string])),
      )
      response.end(output.subarray(end + 4))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/repo.git`
}

test('[LOC7] a private repository is cloned, and its credential is nowhere in the sandbox', async () => {
  const token = 'ghp_canary0123456789'
  const url = await privateRepository(token)
  const { put, get, running, root, folder } = await host()
  const [good = '', inUrl = '', bad = ''] = ids
  await put(spec(good, '', { repository: { url, ref: null, token } }))
  const withToken = url.replace('//', `//x-access-token:${token}@`)
  await put(spec(inUrl, '', { repository: { url: withToken, ref: null, token: null } }))
  await put(spec(bad, '', { repository: { url, ref: null, token: 'wrong-credential' } }))
  for (const id of [good, inUrl]) {
    await running(id)
    const config = readFileSync(join(root, `${id}.1`, 'workspace', '.git', 'config'), 'utf8')
    expect(config).toContain(`url = ${url}`)
  }
  const info = await until(async () => {
    const found = await get(bad)
    return found?.state === 'exited' ? found : null
  })
  expect(info.reason).toContain('git clone')
  expect(info.reason).not.toContain('wrong-credential')
  for (const place of [root, folder]) {
    expect(spawnSync('grep', ['-rlaF', token, place], { encoding: 'utf8' }).stdout).toBe('')
  }
})

test('[LOC8] an agent gets its token by standard input: not in its arguments or environment', async () => {
  const { put, running, root } = await host()
  const id = ids[0] ?? ''
  await put(spec(id))
  await running(id)
  const { boot, env } = JSON.parse(
    readFileSync(join(root, `${id}.1`, 'agent', 'boot.json'), 'utf8'),
  ) as {
    boot: Record<string, unknown>
    env: Record<string, string>
  }
  expect(boot).toMatchObject({ sessionId: id, generation: 1, token: 'the-token-of-this-sandbox' })
  expect(Object.keys(env).sort()).toEqual(['GANTRY_MARK', 'GANTRY_SANDBOX', 'HOME', 'LANG', 'PATH'])
  for (const pid of marked(`${id}.1`)) {
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).not.toContain('the-token')
  }
})

asRoot(
  '[LOC6] as root, each sandbox has a user who reaches its own folders and no other',
  async () => {
    const { put, running, root } = await host()
    const [one = '', two = ''] = ids
    for (const id of [one, two]) {
      await put(spec(id))
      await running(id)
    }
    const folder = (id: string, name: string) => join(root, `${id}.1`, name)
    const uid = statSync(folder(one, 'home')).uid
    expect(uid).toBeGreaterThanOrEqual(claim?.uids[0] ?? 0)
    expect(statSync(folder(two, 'home')).uid).not.toBe(uid)
    const env = { PATH: process.env['PATH'], HOME: folder(one, 'home') }
    const can = (script: string) =>
      spawnSync('sh', ['-c', script], { uid, gid: uid, env }).status === 0
    expect(
      can(
        `cd ${folder(one, 'workspace')} && echo x > x && git status && git commit -qm x --allow-empty`,
      ),
    ).toBe(true)
    expect(can(`echo x > ${folder(one, 'tmp')}/x && echo x > ${folder(one, 'home')}/x`)).toBe(true)
    expect(can(`ls ${folder(one, 'config')}`)).toBe(true)
    expect(can(`echo x > ${folder(one, 'config')}/x`)).toBe(false)
    expect(can(`ls ${folder(one, 'agent')}`)).toBe(false)
    expect(can(`ls ${folder(two, 'config')}`)).toBe(false)
    expect(can(`ls ${folder(two, 'workspace')}`)).toBe(false)
    expect(can(`ls ${root}`)).toBe(false)
  },
)

asRoot(
  '[LOC6] as root, a process that has dropped its marks is ended with its sandbox all the same',
  async () => {
    const { ask, put, running, root } = await host()
    const id = ids[0] ?? ''
    await put(spec(id))
    await running(id)
    const uid = statSync(join(root, `${id}.1`, 'home')).uid
    const hidden = spawn('setsid', ['env', '-i', '/bin/sleep', '60'], { uid, gid: uid })
    onTestFinished(async () => void (await killProcesses({ marks: [], uids: [uid] })))
    await until(() => findProcesses({ marks: [], uids: [uid] }).length === 1)
    await ask('DELETE', `/sandboxes/${id}/1`)
    expect(findProcesses({ marks: [], uids: [uid] })).toEqual([])
    expect(hidden.pid).toBeDefined()
  },
)
