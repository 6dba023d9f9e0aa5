import { randomUUID } from 'node:crypto'
import { chmodSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import {
  anythingGoes,
  argvOf,
  bash,
  Box,
  environOf,
  portsOf,
  stackProcesses,
  startTap,
  type Tap,
  until,
  useBox,
  useRealStack,
  verify,
  write,
} from './support.ts'
import { answerGit, makeRepository } from '../support/smart-git.ts'
import { asRoot, unless } from '../support/needs.ts'
import { request } from '../support/stack.ts'

// What the sandbox sends to the control plane goes through a tap, which so learns the token.
let tap: Tap
const token = `ght_canary${randomUUID().replaceAll('-', '')}`
let remote: Awaited<ReturnType<typeof serveRepository>>
const stack = useRealStack('workerd', async () => {
  tap = await startTap(() => stack().url)
  remote = await serveRepository(token)
  const { host } = new URL(remote.url)
  return { env: { GANTRY_PUBLIC_URL: tap.url, GANTRY_PRIVATE_HOSTS: host } }
})
afterAll(() => {
  tap?.close()
  remote?.close()
})
const anything = useBox(stack, async () => {
  const { project } = await anythingGoes(stack())
  const made = await api('POST', '/v1/configurations', { name: 'injected', project })
  const inject = { hosts: [new URL(remote.url).origin], scheme: 'basic' }
  const secret = { value: token, configurationId: made.json.id, inject }
  expect((await api('PUT', '/v1/secrets/GIT_TOKEN', secret)).status).toBe(200)
  return { project, configurationId: made.json.id }
})
const api = (method: string, path: string, body: object) =>
  request(method, `${stack().url}${path}`, stack().adminKey, body)

const cloned = useBox(stack, () => ({ repository: { url: remote.url, token, ref: 'main' } }))

const tokenPattern = /authorization: Bearer (eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+)/gi

/** Also as somebody might have kept it: encoded, or without its head. */
function spellings(secret: string): string[] {
  const last = secret.split('.').at(-1) as string
  return [last, Buffer.from(secret).toString('base64').slice(0, 60), encodeURIComponent(last)]
}

function findIn(text: string, secrets: string[]): boolean {
  return secrets.some((secret) => text.includes(secret))
}

function filesUnder(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    const stat = lstatSync(path, { throwIfNoEntry: false })
    if (stat?.isDirectory()) return filesUnder(path)
    return stat?.isFile() ? [path] : []
  })
}

const filesWith = (folder: string, secrets: string[]): string[] =>
  filesUnder(folder).filter((path) => {
    try {
      return findIn(readFileSync(path, 'latin1'), secrets)
    } catch {
      return false // gone meanwhile
    }
  })

test('[AUTH10] [BOX9] [HOST5] [LOC8] the token and the admin key are in no environment, file, event, log or command line', async () => {
  const box = anything()
  const turn = await box.run([
    write('.proliferate/.verification/a.txt', 'a'),
    verify(),
    bash('env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr "\\0" "\\n"; ps axeww || true'),
    bash(
      'grep -rhs eyJ /proc/self/environ "$HOME" "$TMPDIR" . | head -c 2000; ls -la $TMPDIR; cat $PROLIFERATE_ENV_FILE',
    ),
  ])
  expect(turn.state).toBe('completed')
  expect(await box.eventsOf('tool.failed')).toEqual([])
  const tokens = [...tap.sent().matchAll(tokenPattern)].map((match) => match[1] as string)
  expect(new Set(tokens).size).toBeGreaterThanOrEqual(2)
  const secrets = [
    ...tokens.flatMap(spellings),
    ...spellings(stack().adminKey),
    ...Object.entries(stack().env)
      .filter(([name]) => /SECRET|KEY|TOKEN/.test(name))
      .flatMap(([, value]) => spellings(value)),
  ]

  const opencode = await box.opencodePid()
  const theirs = box.processes().filter((pid) => pid !== process.pid)
  expect(theirs).toContain(opencode)
  for (const pid of theirs) expect(findIn(environOf(pid), secrets)).toBe(false)
  const all = stackProcesses(stack().mark)
  expect(all.length).toBeGreaterThan(4)
  for (const pid of all)
    expect([argvOf(pid), findIn(argvOf(pid).join(' '), secrets)]).toEqual([argvOf(pid), false])
  const environment = environOf(opencode)
  for (const name of [
    'PROLIFERATE_GATEWAY_URL',
    'SANDBOX_MCP_AUTH_TOKEN',
    'PROLIFERATE_SESSION_ID',
  ])
    expect(environment).toContain(`${name}=`)

  expect(filesWith(box.folder(), secrets)).toEqual([])
  expect(findIn(JSON.stringify(await box.events()), secrets)).toBe(false)
  expect(findIn(JSON.stringify(await box.view()), secrets)).toBe(false)
  const logs = filesUnder(stack().stateDir).filter((path) => /\.log(\.1)?$/.test(path))
  expect(logs.length).toBeGreaterThanOrEqual(4)
  expect(logs.filter((path) => findIn(readFileSync(path, 'latin1'), secrets))).toEqual([])
  // The sessions' tokens are nowhere on disk at all; of the key only its own file is left.
  expect(filesWith(stack().stateDir, tokens.flatMap(spellings))).toEqual([])
  expect(filesWith(stack().stateDir, [stack().adminKey])).toEqual([stack().adminKeyPath])
})

asRoot(
  '[HOST4] [LOC6] [LOC10] [LOC11] [WALL3] [WALL5] [WALL12] from the shell of OpenCode every port refuses, and neither state nor neighbours can be read',
  async () => {
    const [box, neighbour] = [anything(), cloned()]
    await neighbour.run([write('private.txt', 'neighbour-secret')])
    const pids = [...stackProcesses(stack().mark), process.pid]
    const ports = portsOf(pids)
    const known = [stack().url, stack().sqld.url, stack().sandboxHost?.url, stack().model?.url]
    expect(ports).toEqual(
      expect.arrayContaining(known.map((url) => Number(new URL(url as string).port))),
    )
    const paths = ['/', '/v1/sessions', '/v1/keys', '/sandboxes', '/v1/log', '/session', '/gate']
    const knock = paths.map((path) => `${path} `).join('')
    const output = await box.bash(
      `bash -c 'for p in ${ports.join(' ')}; do for u in ${knock}; do ` +
        `exec 3<>/dev/tcp/127.0.0.1/$p && printf "GET $u HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n" >&3 && ` +
        `echo "$p $u $(timeout 3 head -c 2000 <&3 | tr -d "\\r\\0" | tr "\\n" "~")"; exec 3>&-; done; done' 2>&1`,
    )
    const answers = output.split('\n').filter((line) => /^\d+ \//.test(line))
    const isEnclosed = (await box.view()).sandbox.enclosure?.level === 'full'
    const refused = output.match(/connect: Connection refused/g) ?? []
    // Of all of them it reaches its own OpenCode alone.
    if (isEnclosed) expect(answers.filter((line) => !line.startsWith('4096 '))).toEqual([])
    expect((isEnclosed ? refused : answers).length).toBeGreaterThanOrEqual(
      known.length * paths.length,
    )
    const open = answers.filter((line) => {
      const [, , status] = /^(\d+ \S+) (?:HTTP\/1\.[01] (\d+))?/.exec(line) ?? []
      return status !== undefined && !['400', '401', '403', '404', '405', '426'].includes(status)
    })
    expect(open).toEqual([])

    const closed = [
      `cat ${stack().adminKeyPath}`,
      `ls ${stack().stateDir}`,
      `ls ${box.folder('agent')}`,
      `cat ${box.folder('agent/memory.json')}`,
      `ls ${neighbour.folder()}`,
      `cat ${neighbour.folder('workspace/private.txt')}`,
      `ls ${stack().sandboxSite?.root} | grep -vx '${box.id}.${box.generation}'`,
      `cat /proc/${box.agentPid()}/environ`,
      `cat /proc/${stack().worker.pid()}/environ`,
      `cat /proc/${await neighbour.opencodePid()}/environ`,
      `kill -9 ${box.agentPid()}`,
      `kill -9 ${await neighbour.opencodePid()}`,
      `touch ${box.folder('config/plugin/more.js')}`,
      `rm -f ${box.folder('config/plugin/proliferate.mjs')}`,
      `mv ${box.folder('config')} ${box.folder('config2')}`,
      `mkdir -p ${box.folder('config/home/.opencode')}`,
    ]
    const tried = await box.bash(
      closed.map((command, n) => `${command} >/dev/null 2>&1 && echo "DONE ${n}"`).join('; ') +
        '; true',
    )
    expect(closed.filter((_, n) => tried.includes(`DONE ${n}\n`))).toEqual([])
    if (!isEnclosed) return

    const status = `curl -s -m 20 -o /dev/null -w '%{http_code}'`
    const walls = {
      password: `cat /proc/1/environ /proc/$OPENCODE_PID/environ 2>/dev/null | grep -c PASSWORD`,
      token: 'echo "[$SANDBOX_MCP_AUTH_TOKEN$OPENCODE_SERVER_PASSWORD]"',
      opencode: `${status} http://127.0.0.1:4096/session`,
      relay: `${status} $PROLIFERATE_GATEWAY_URL/llm/anthropic/v1/messages`,
      host: `${status} --noproxy '' -x $HTTP_PROXY ${stack().url}/healthz`,
      metadata: `${status} http://169.254.169.254/latest/meta-data/`,
      direct: `${status} --noproxy '*' http://169.254.169.254/`,
      names: 'getent hosts gantry.example.com || echo none',
      outside: 'touch /x /usr/x /etc/x 2>/dev/null || echo refused',
      write: 'touch $HOME/x $TMPDIR/x /tmp/y ./z && rm ./z && echo done',
    }
    const commands = Object.entries(walls).map(([name, command]) => `echo "${name}=$(${command})"`)
    const found = await box.bash(commands.join('; '))
    expect(
      Object.fromEntries(
        found
          .trim()
          .split('\n')
          .map((line) => line.split('=')),
      ),
    ).toEqual({
      ...{ password: '0', token: '[]', opencode: '401', relay: '401' },
      ...{ host: '403', metadata: '403', direct: '000' },
      ...{ names: 'none', outside: 'refused', write: 'done' },
    })
  },
)

test('[SES11] [LOC7] [API2] a private repository is cloned with a token that is nowhere in the sandbox', async () => {
  const refused = await Box.create(stack(), { repository: { url: remote.url, token: 'wrong' } })
  const box = cloned()
  expect(await box.bash('cat README.md; git remote -v; git config --list')).toContain(
    'private content',
  )
  expect(remote.authorised()).toBe(true)

  const secrets = [...spellings(token), Buffer.from(`x-access-token:${token}`).toString('base64')]
  expect(filesWith(box.folder(), secrets)).toEqual([])
  for (const pid of box.processes()) expect(findIn(environOf(pid), secrets)).toBe(false)
  expect(findIn(JSON.stringify([await box.events(), await box.view()]), secrets)).toBe(false)
  expect(filesWith(stack().stateDir, secrets)).toEqual([])

  const failed = await until('the clone without the right token fails', 60_000, async () => {
    const { sandbox } = await refused.view()
    return sandbox.state === 'failed' && sandbox
  })
  expect(failed.reason).toContain('git clone')
  await refused.post('/close')
})

test('[WALL20] [SEC13] [SEC14] with a token that is nowhere in the sandbox git clones and pushes, and what a host shows of it is hidden', async (context) => {
  const box = anything()
  unless((await box.view()).sandbox.enclosure?.level === 'full', context, 'a full enclosure')
  const name = `GANTRY_UPSTREAM_${new URL(remote.url).host.replaceAll(/[.:]/g, '_')}`
  const output = await box.bash(
    [
      `git clone -q ${remote.url} injected && cd injected && cat README.md`,
      // Large enough that git sends it in pieces, and often enough that it compresses what it asks for.
      'head -c 3000000 /dev/urandom >large && git add -A && git -c user.name=a -c user.email=a@b commit -qm large && git push -q origin HEAD:pushed && echo pushed',
      `git ls-remote ${remote.url} pushed | wc -l`,
      `curl -s "$${name}/echo"; curl -s -o /dev/null -w ' %{http_code} %{redirect_url}' "$${name}/moved"`,
      `env; cat "$PROLIFERATE_ENV_FILE"; git config --list; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'`,
    ].join('\n'),
  )
  expect(output).toContain('private content\npushed\n1\n')
  expect(output).toContain('authorization: [secret:GIT_TOKEN]')
  expect(output).toContain(' 302 http://127.0.0.1:4010/elsewhere')
  const secrets = [...spellings(token), Buffer.from(`x-access-token:${token}`).toString('base64')]
  expect(findIn(output, secrets)).toBe(false)
  expect(filesWith(box.folder(), secrets)).toEqual([])
  for (const pid of box.processes()) expect(findIn(environOf(pid), secrets)).toBe(false)
  expect(tap.sent()).not.toContain(token)
})

/** git's own server behind a token. */
async function serveRepository(token: string) {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-repo-'))
  chmodSync(folder, 0o700)
  makeRepository(folder, 'private.git', 'private content')
  const wanted = `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`
  let authorised = false
  const server = createServer((incoming, outgoing) => {
    if (incoming.headers.authorization !== wanted) {
      outgoing.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
      return
    }
    authorised = true
    const { pathname } = new URL(incoming.url ?? '/', 'http://x')
    if (pathname === '/echo') outgoing.end(`authorization: ${wanted}`)
    else if (pathname === '/moved')
      outgoing.writeHead(302, { location: `http://${incoming.headers.host}/elsewhere` }).end()
    else answerGit(folder, incoming, outgoing)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const close = () => {
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  }
  return { url: `http://127.0.0.1:${port}/private.git`, authorised: () => authorised, close }
}
