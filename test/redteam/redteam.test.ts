import { type ChildProcess, spawn } from 'node:child_process'
import { randomInt, randomUUID } from 'node:crypto'
import { accessSync, constants, statSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { binary } from '../../local/binaries.ts'
import { findProcesses, sandboxMark } from '../../local/processes/processes.ts'
import { Category, Risk } from '../../src/contract/permission.ts'
import { bash, Box, portsOf, stackProcesses, until, write } from '../e2e/support.ts'
import { isRoot } from '../support/needs.ts'
import { request } from '../support/stack.ts'
import { type Attack, attacks } from './attacks.ts'
import type { Site } from './stack-main.ts'

const main = new URL('stack-main.ts', import.meta.url).pathname
/** Whoever else there is on this machine must be able to read the checkout. */
const canBeRead = isRoot && main.split('/').every((_, at, parts) => isOpen(parts.slice(0, at)))
function isOpen(parts: string[]): boolean {
  const path = parts.join('/') || '/'
  accessSync(path, constants.X_OK)
  return (statSync(path).mode & 0o001) !== 0
}

const kinds = {
  root: { isOpen: isRoot, become: [] as string[] },
  'an ordinary user': {
    isOpen: !isRoot || canBeRead,
    become: isRoot ? asSomebody(randomInt(40_000, 60_000)) : [],
  },
}
function asSomebody(uid: number): string[] {
  return ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--']
}

async function start(become: string[], enclosure: string): Promise<[Site, ChildProcess]> {
  const order = [...become, binary('node'), main, enclosure]
  const env = { ...process.env, HOME: '/tmp' }
  const child = spawn(order[0] ?? '', order.slice(1), {
    stdio: ['pipe', 'pipe', 'inherit'],
    cwd: '/',
    env,
  })
  const line = await new Promise<string>((resolve, reject) => {
    let said = ''
    child.stdout?.on('data', (chunk: Buffer) => {
      said += chunk.toString()
      const found = said.split('\n').find((each) => each.startsWith('{"url"'))
      if (found) resolve(found)
    })
    child.once('exit', (status) => reject(new Error(`The stack ended with ${status}`)))
  })
  return [JSON.parse(line) as Site, child]
}

/** Every command is allowed, whatever it may be; the proxy's questions are not. */
async function storePolicy(site: Site): Promise<string> {
  const risks = Risk.options
  const everything = [
    { category: Category.options.filter((each) => each !== 'external-directory') },
    { category: 'external-directory', path: '/**' },
  ].flatMap((match) => [match, { ...match, risks }])
  // The last that matches decides.
  const rules = [
    ...everything.map((match) => ({ match, decision: 'allow' })),
    { match: { command: 'ask-me*' }, decision: 'ask' },
    { match: { tool: 'network' }, decision: 'deny', reason: 'Nothing leaves' },
  ]
  const body = {
    project: 'redteam',
    format: 'json',
    source: JSON.stringify({ name: 'open', rules }),
  }
  const answer = await request('PUT', `${site.url}/v1/policies`, site.adminKey, body)
  if (answer.status !== 200) throw new Error(`Cannot store the policy: ${answer.text}`)
  return 'redteam'
}

async function storeSecret(site: Site, project: string, value: string): Promise<string> {
  const api = (method: string, path: string, body: object) =>
    request(method, `${site.url}${path}`, site.adminKey, body)
  const { json } = await api('POST', '/v1/configurations', { name: 'injected', project })
  const inject = { hosts: ['api.github.com'] }
  await api('PUT', '/v1/secrets/HELD', { value, inject, configurationId: json.id })
  return json.id
}

describe.each(Object.entries(kinds).filter(([, { isOpen }]) => isOpen))(
  'the red team, in a stack of %s',
  (_, { become }) => {
    let site: Site
    let child: ChildProcess
    let [own, neighbour] = [] as unknown as [Box, Box]
    let got: Record<string, string> = {}
    let table: Record<string, Attack> = {}

    beforeAll(async () => {
      ;[site, child] = await start(become, 'auto')
      const project = await storePolicy(site)
      const limits = { processes: 300, memoryMb: 1500 }
      neighbour = await Box.create(site as never, { project })
      await neighbour.ready()
      const injected = `tok-${randomUUID()}`
      const configurationId = await storeSecret(site, project, injected)
      own = await Box.create(site as never, { project, limits, configurationId })
      await own.ready()
      const secret = randomUUID()
      await neighbour.run([write('private.txt', secret)])
      const asking = await neighbour.prompt([bash('ask-me first')])
      const approval = await neighbour.parked()
      table = attacks({
        ...site,
        ports: portsOf(stackProcesses(site.mark)),
        own: { folder: own.folder(), agentPid: own.agentPid() },
        neighbour: {
          ...{ folder: neighbour.folder(), secret, opencodePid: await neighbour.opencodePid() },
        },
        approvalId: approval.id,
        injected,
      })
      const entries = Object.entries(table)
      for (let at = 0; at < entries.length; at += 6) {
        const some = entries.slice(at, at + 6)
        const script = some.map(
          ([name, { command }]) => `echo "<${name}>"; ${command}; echo "</${name}>"`,
        )
        const said = await own.bash(script.join('\n'))
        for (const [name] of some)
          got[name] = said.split(`<${name}>\n`)[1]?.split(`</${name}>`)[0] ?? 'it was not tried'
      }
      expect(await neighbour.parked()).toMatchObject({ id: approval.id, state: 'pending' })
      await neighbour.answer(approval, 'deny')
      await neighbour.ended(asking)
    }, 600_000)
    afterAll(async () => {
      child?.stdin?.end()
      await new Promise((resolve) => child?.once('exit', resolve))
    }, 120_000)

    test('[WALL8] the sandbox says that it is in a full enclosure', async () => {
      expect((await own.view()).sandbox.enclosure).toMatchObject({ level: 'full', why: null })
    })

    const names = Object.keys(attacks({ ports: [], own: {}, neighbour: {} } as never))
    test.each(names)(
      '[WALL1] [WALL2] [WALL3] [WALL5] [WALL12] [WALL16] [WALL20] cannot %s',
      (name) => {
        expect(got[name]).toMatch(table[name]?.refused ?? /never/)
      },
    )

    test("[WALL1] OpenCode's own tools work inside: files, searches, worktrees and snapshots", async () => {
      const call = (name: string, args: object) => ({ calls: [{ name, args: { ...args } }] })
      const path = `${own.folder('workspace')}/tool.txt`
      const turn = await own.run([
        write(path, 'one\n'),
        call('read', { filePath: path }),
        call('edit', { filePath: path, oldString: 'one', newString: 'two' }),
        call('grep', { pattern: 'two' }),
        call('glob', { pattern: '*.txt' }),
        bash(
          'git add -A && git -c user.name=a -c user.email=a@b commit -qm tool && git worktree add -q ../tree 2>&1 || git worktree add -q /tmp/tree; git worktree list | wc -l',
        ),
        bash(
          'find ~/.local/share/opencode/snapshot -type f | head -1 | wc -l; script -qec "tty" /dev/null | tr -d "\\r"',
        ),
      ])
      expect(turn.state).toBe('completed')
      expect(await own.eventsIn(turn, 'tool.failed')).toEqual([])
      const outputs = (await own.eventsIn(turn, 'tool.completed')).map(({ output }) => output ?? '')
      expect(outputs[3]).toContain('tool.txt')
      expect(outputs[4]).toContain('tool.txt')
      expect(outputs[5]).toContain('2\n')
      expect(outputs[6]).toMatch(/^1\n\/dev\/pts\/\d+/)
    })

    test('[WALL17] a fork bomb and a memory bomb stay within the limits, and the sandbox works on', async () => {
      const mark = `${sandboxMark}=${own.id}.${own.generation}`
      let most = 0
      const count = setInterval(() => {
        most = Math.max(most, findProcesses({ marks: [mark] }).length)
      }, 200)
      await own.run([
        bash('bomb() { bomb | bomb & }; (bomb) 2>/dev/null; sleep 3; pkill -9 bash; true'),
        bash('head -c 16G /dev/zero | tail 2>&1 | tail -c 100'),
      ])
      clearInterval(count)
      expect(most).toBeLessThanOrEqual(400)
      await until('it works again', 60_000, async () =>
        (await own.bash('echo alive').catch(() => '')).includes('alive'),
      )
      expect(await neighbour.bash('echo alive')).toContain('alive')
    })
  },
)

const [last] = Object.values(kinds)
  .filter(({ isOpen }) => isOpen)
  .toReversed()
describe.runIf(last)('without an enclosure', () => {
  test('[WALL9] it says so and why; ports and routes still ask for keys, and bash has no token', async () => {
    const [site, child] = await start(last?.become ?? [], 'off')
    const box = await Box.create(site as never, { project: await storePolicy(site) })
    await box.ready()
    const { enclosure } = (await box.view()).sandbox
    expect(enclosure?.level).not.toBe('full')
    expect(enclosure?.why).toBe('It is switched off')
    const status = `curl -s -m 20 -o /dev/null -w '%{http_code}\\n'`
    const said = await box.bash(
      `${status} ${site.url}/v1/sessions; ${status} $PROLIFERATE_GATEWAY_URL/llm/anthropic/v1/messages; grep -rlsa 'eyJ[A-Za-z0-9_-]*[.]eyJ' "$HOME" . | head -3; echo "[$OPENCODE_SERVER_PASSWORD]"`,
    )
    expect(said).toBe('401\n401\n[]\n')
    await box.post('/close')
    child.stdin?.end()
    await new Promise((resolve) => child.once('exit', resolve))
  }, 300_000)
})
