import { createServer } from 'node:net'
import { chmodSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { AddressInfo } from 'node:net'
import type { Enforcement } from '../../../../src/contract/operation.ts'
import type { Enclosure } from '../../../../sandbox-agent/execute/run/enclosure.ts'
import { runEnclosed } from '../../../../sandbox-agent/execute/run/run.ts'
import { shellPath } from '../../../../sandbox-agent/shell.ts'
import { findMarked } from '../../../../sandbox-agent/marked-processes.ts'
import {
  makeExecutor,
  makePlace,
  makeRepository,
  newAttempt,
  operationOf,
  planOf,
  put,
  sandboxUser,
} from '../execute-kit.ts'
import { asRoot, isRoot, unless } from '../../../support/needs.ts'

function setUp(as: 'sandbox' | 'agent' = 'sandbox') {
  const { root, site, mark } = makePlace(as === 'agent' ? undefined : sandboxUser)
  const { executor } = makeExecutor(site, join(root, 'attempts'))
  const run = (command: string, limits: object = {}, fields: object = {}, plan: object = {}) =>
    executor.execute({
      attemptId: newAttempt(),
      operation: operationOf('run', { command, ...fields }),
      plan: planOf('process-sandbox', plan, limits),
    })
  const holds = async (what: Enforcement) => (await executor.enforces()).includes(what)
  const left = () => findMarked({ mark, uid: undefined })
  return { root, site, executor, run, holds, left }
}

async function listen(): Promise<number> {
  const server = createServer((socket) => socket.end('reached'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

describe('running', () => {
  it('[EXEC28] a command is run by bash, as it was judged', async () => {
    const { run } = setUp()
    const quotes = `echo "\${x:-'}"; echo second; echo "'}"`
    expect((await run(quotes)).output).toBe("'}; echo second; echo '\n")
    expect((await run('a=(1 2); [[ ${#a[@]} = 2 ]] && echo {x,y}')).output).toBe('x y\n')
    expect((await run('echo $BASH')).output).toBe(`${shellPath()}\n`)
  })

  it('[EXEC28] a command or a variable that is longer than a program may be given reaches it', async () => {
    const { executor } = setUp()
    const run = (command: string, environment: Record<string, string> = {}) =>
      executor.execute({
        attemptId: newAttempt(),
        operation: { ...operationOf('run', { command: 'true' }), command, environment },
        plan: planOf('process-sandbox'),
      })
    const long = 'x'.repeat(300_000)
    expect((await run(`printf %s '${long}' | wc -c`)).output.trim()).toBe('300000')
    const piped = `printf %s "$LONG" | { unset LONG; wc -c; }; exit 4`
    expect(await run(piped, { LONG: long })).toMatchObject({ exitCode: 4, output: '300000\n' })
    const tooLong = await run('wc -c < /dev/null', { LONG: long })
    expect([tooLong.exitCode, tooLong.output]).toEqual([126, expect.stringMatching(/too long/)])
  })

  it('[EXEC12] a command runs in the workspace as the sandbox user and tells its output and exit code', async () => {
    const { site, run } = setUp()
    const report = await run(`pwd; id -u; echo "it's" >&2; exit 3`)
    const uid = site.owner?.uid ?? process.getuid?.()
    expect(report).toMatchObject({
      status: 'failed',
      output: `${site.workspace}\n${uid}\nit's\n`,
      exitCode: 3,
      error: 'Exit code 3',
      truncated: false,
    })
    expect(await run('touch made && ls')).toMatchObject({
      status: 'succeeded',
      output: 'made\n',
      exitCode: 0,
      error: null,
    })
    expect(existsSync(join(site.workspace, 'made'))).toBe(true)
  })

  it('[EXEC13] the environment is the list and nothing else, and is passed on as it is', async () => {
    const { site, run } = setUp()
    process.env['GANTRY_TEST_SECRET'] = 'secret'
    onTestFinished(() => void delete process.env['GANTRY_TEST_SECRET'])
    const value = `a'b"c$(id)\nnext`
    const { output } = await run('env', {}, { environment: { MINE: value, HOME: '/elsewhere' } })
    const names = [...output.matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name)
    expect(new Set(names)).toEqual(
      new Set([
        'MINE',
        'HOME',
        'PATH',
        'LANG',
        'PWD',
        // Of bash itself.
        'SHLVL',
        '_',
        'GANTRY_MARK',
        'GANTRY_SANDBOX',
        'GANTRY_ATTEMPT',
      ]),
    )
    expect(output).toContain(`MINE=${value}\n`)
    expect(output).toContain('HOME=/elsewhere\n')
    expect(output).toContain(`GANTRY_SANDBOX=${site.marks['GANTRY_SANDBOX']}`)
    expect(await run('true', {}, { environment: { 'A=B;id': 'x' } })).toMatchObject({
      error: 'Cannot run: "A=B;id" is no name of a variable',
    })
  })

  it('[EXEC13] the programs that build the walls do not hear of it', async () => {
    const { site, run } = setUp()
    const canary = join(site.home, 'ran')
    for (const name of ['unshare', 'setpriv', 'prlimit', 'ip', 'mount', 'cat', 'sh', 'evil']) {
      put(site, `evil/${name}`, `#!/bin/sh\necho ${name} >> '${canary}'\n`)
      chmodSync(join(site.workspace, 'evil', name), 0o755)
    }
    const PATH = `${site.workspace}/evil:${site.path}`
    expect(await run('evil', {}, { environment: { PATH } })).toMatchObject({ error: null })
    expect(readFileSync(canary, 'utf8')).toBe('evil\n')
  })

  it('[EXEC13] what the operation says cannot hide its processes', async () => {
    const { site, run } = setUp()
    const { output } = await run(
      'echo $GANTRY_SANDBOX',
      {},
      { environment: { GANTRY_SANDBOX: 'other' } },
    )
    expect(output).toBe(`${site.marks['GANTRY_SANDBOX']}\n`)
  })

  it('[EXEC14] without the network nothing is reached, and with it the same address is', async () => {
    const { run, holds } = setUp()
    const port = await listen()
    const connect = `exec 2>&1; bash -c 'cat < /dev/tcp/127.0.0.1/${port}'`
    const open = await run(connect, {}, { network: true }, { network: true })
    expect([open.output, open.enforced.includes('network')]).toEqual(['reached', false])
    const closed = await run(connect)
    if (await holds('network')) {
      expect(closed.status).toBe('failed')
      expect(closed.output).not.toContain('reached')
      expect(closed.enforced).toContain('network')
      const names = await run(
        `sed -n '3,$s/:.*//p' /proc/net/dev; bash -c 'true < /dev/udp/192.0.2.1/53'`,
      )
      expect(names.output).toMatch(/^\s*lo\n.*(unreachable|Network)/s)
    } else {
      console.log('No network namespaces here: the command was run with the network')
      expect(closed.enforced).not.toContain('network')
    }
  })

  it('[EXEC14] a plan that counts on what this sandbox does not hold is refused, unless somebody let go of it', async () => {
    const { root, site } = setUp()
    const { executor } = makeExecutor({ ...site, path: '/nowhere' }, join(root, 'without'))
    const enforces = await executor.enforces()
    expect(enforces).not.toContain('network')
    const attempt = (notEnforced: string[]) =>
      executor.execute({
        attemptId: newAttempt(),
        operation: operationOf('run', { command: 'true' }),
        plan: planOf('process-sandbox', { enforce: ['network', 'time'], notEnforced }),
      })
    expect(await attempt([])).toMatchObject({
      status: 'failed',
      error: 'Cannot execute: this sandbox cannot hold it to network',
    })
    expect((await attempt(['network'])).error).not.toContain('cannot hold it')
  })

  it('[EXEC15] after its time it is told to end, and then it is killed with all its children', async () => {
    const { run, left } = setUp()
    const gentle = await run(`trap 'echo bye; exit 0' TERM; sleep 60 & wait`, { timeoutMs: 500 })
    expect(gentle).toMatchObject({
      status: 'failed',
      output: 'bye\n',
      exitCode: null,
      timedOut: true,
      error: 'It had not ended after 500 ms',
    })
    const deaf = await run(`trap '' TERM; (trap '' TERM; setsid sleep 61) & sleep 62; sleep 63`, {
      timeoutMs: 300,
    })
    expect(deaf.error).toBe('It had not ended after 300 ms')
    expect(left()).toEqual([])
  })

  it('[EXEC15] what it leaves in the background ends with it, also in a session of its own', async () => {
    const { run, left } = setUp()
    const report = await run(
      'sleep 71 & setsid sleep 72 & (setsid sh -c "sleep 73 &" &); echo done',
    )
    expect(report).toMatchObject({ status: 'succeeded', output: 'done\n' })
    expect(left()).toEqual([])
  })

  asRoot('[EXEC15] it ends also if it has dropped the mark', async (context) => {
    const { run, site, holds } = setUp()
    unless(await holds('network'), context, 'namespaces')
    await run('env -i setsid sleep 74.5 & sleep 0.2')
    expect(findMarked({ mark: 'none', uid: site.owner?.uid })).toEqual([])
  })

  it('[EXEC16] a fork bomb meets the limit of processes', async (context) => {
    const { run, left, holds } = setUp()
    unless(await holds('processes'), context, 'a kernel that counts processes')
    let most = 0
    const timer = setInterval(() => (most = Math.max(most, left().length)), 50)
    const report = await run('b() { b | b & }; b; sleep 30', { processes: 40, timeoutMs: 1500 })
    clearInterval(timer)
    expect(report.status).toBe('failed')
    expect(report.enforced).toContain('processes')
    expect(most).toBeLessThan(60)
    expect(left()).toEqual([])
  })

  it('[EXEC16] the kernel refuses a process too many, whatever else the user runs', async (context) => {
    const { run, holds } = setUp()
    unless(await holds('network'), context, 'namespaces')
    const many = 'i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done'
    // Bash goes on trying for a while.
    const report = await run(many, { processes: 20, timeoutMs: 3000 })
    expect(report.status).toBe('failed')
    expect(report.output).toMatch(/fork/)
    expect(await run(many, { processes: 61 })).toMatchObject({ status: 'succeeded' })
  })

  asRoot(
    '[EXEC16] root, whose processes the kernel does not count, is watched and killed',
    async () => {
      const { run, left } = setUp('agent')
      const report = await run('i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; wait', {
        processes: 20,
        timeoutMs: 10_000,
      })
      expect(report.error).toBe('It used more than 20 processes')
      expect(left()).toEqual([])
    },
  )

  it('[EXEC16] one process gets no more memory than the limit, and all together neither', async (context) => {
    const { run, holds } = setUp()
    unless(await holds('memory'), context, 'a limit on memory')
    const limits = { memoryBytes: 64 * 1024 * 1024 }
    const one = await run('dd if=/dev/zero of=/dev/null bs=200M count=1', limits)
    expect(one).toMatchObject({ status: 'failed', exitCode: 1 })
    expect(one.output).toContain('memory exhausted')
    const fill = 'dd if=/dev/zero of=/dev/null bs=30M count=100000000'
    const all = await run(`${fill} & ${fill} & ${fill} & ${fill} & wait`, limits)
    expect(all.error).toBe(`It used more than ${limits.memoryBytes} bytes of memory`)
    const within = await run(
      'dd if=/dev/zero of=/dev/null bs=20M count=1 2>/dev/null && echo fine',
      limits,
    )
    expect(within.output).toBe('fine\n')
  })

  it('[EXEC17] of a flood the beginning and the end are kept, and an endless one is ended', async () => {
    const { run } = setUp()
    const report = await run('echo first; seq 100000; echo last', { outputBytes: 2000 })
    expect(report).toMatchObject({ status: 'succeeded', truncated: true })
    expect(report.output).toMatch(/^first\n1\n[^]*\n\[… \d+ bytes left out …\]\n[^]*\nlast\n$/)
    expect(report.output.length).toBeLessThan(2100)
    const endless = await run('yes', { outputBytes: 2000, timeoutMs: 60_000 })
    expect(endless.error).toMatch(/^It printed more than \d+ bytes$/)
  })

  it('[EXEC17] bytes that are no text are shown as such', async () => {
    const { run } = setUp()
    expect((await run(`printf 'a\\000b\\377c'`)).output).toBe('a\uFFFDb\uFFFDc')
  })

  it('[EXEC12] it gains no privileges and sees no processes of others', async (context) => {
    const { run, holds } = setUp()
    unless(await holds('network'), context, 'namespaces')
    const { output } = await run(
      `grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; echo $$; ls /proc | grep -c '^[0-9]'`,
    )
    expect(output).toMatch(/CapEff:\t0+\nCapBnd:\t0+\nNoNewPrivs:\t1\n\d\n\d\n/)
  })

  const enclosures: Enclosure[] = isRoot ? ['user', 'root', 'none'] : ['user', 'none']
  it.for(enclosures)(
    '[EXEC15] in the walls "%s" nothing is left of it',
    async (enclosure, context) => {
      const { site, executor, left, holds } = setUp()
      unless(enclosure === 'none' || (await holds('network')), context, 'namespaces')
      const run = (command: string, timeoutMs = 10_000) =>
        runEnclosed({
          site,
          attemptId: newAttempt(),
          held: { enclosure, enforces: ['time'] },
          plan: planOf('process-sandbox', {}, { timeoutMs }),
          command,
          folder: site.workspace,
          environment: { PATH: site.path },
        })
      const uid = site.owner?.uid ?? process.getuid?.()
      expect(await run('id -u; setsid sleep 75 & exit 4')).toMatchObject({
        output: `${uid}\n`,
        exitCode: 4,
      })
      expect(left()).toEqual([])
      expect(await run(`trap '' TERM; setsid sleep 76 & sleep 77`, 200)).toMatchObject({
        error: 'It had not ended after 200 ms',
      })
      expect(left()).toEqual([])
      expect(await executor.enforces()).toContain('time')
    },
  )

  it('[EXEC18] a command planned for a worktree changes a checkout of its own', async () => {
    const { site, git, executor } = makeRepository()
    put(site, 'untracked', 'mine\n')
    const attemptId = newAttempt()
    const report = await executor.execute({
      attemptId,
      operation: operationOf('run', { command: 'rm -rf src; echo new > made; pwd; ls' }),
      plan: planOf('git-worktree'),
    })
    expect(report).toMatchObject({
      status: 'succeeded',
      branch: `gantry/${attemptId}`,
      exitCode: 0,
    })
    expect(report.output).toContain('kept.txt\nlater.txt\nmade\n')
    expect(git('diff', '--name-status', 'HEAD', `gantry/${attemptId}`)).toBe('A\tmade\nD\tsrc/a.ts')
    expect(git('status', '--porcelain')).toBe('?? untracked')
    expect(await executor.merge({ attemptId, branch: `gantry/${attemptId}` })).toMatchObject({
      merged: true,
    })
    expect(readFileSync(join(site.workspace, 'made'), 'utf8')).toBe('new\n')
    expect(existsSync(join(site.workspace, 'src'))).toBe(false)
  })

  it('[EXEC18] what such a command writes into its git folder is not heard afterwards', async () => {
    const { site, executor } = makeRepository()
    const canary = join(site.home, 'ran')
    const command = `cd ..; git config -f git/config filter.x.clean 'touch ${canary}; cat'; mkdir -p git/info
      echo '* filter=x' > git/info/attributes; echo x > files/made`
    const report = await executor.execute({
      attemptId: newAttempt(),
      operation: operationOf('run', { command }),
      plan: planOf('git-worktree'),
    })
    expect(report).toMatchObject({ error: null, status: 'succeeded' })
    expect(existsSync(canary)).toBe(false)
  })
})
