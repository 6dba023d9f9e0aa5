import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findPlaces } from '../../../sandbox-agent/enclosure/places.ts'
import { encloseRun } from '../../../sandbox-agent/execute/run/enclosure.ts'
import { findMarked } from '../../../sandbox-agent/marked-processes.ts'
import { asRoot, isRoot, unless } from '../../support/needs.ts'
import type { Outcome } from './enclosed-main.ts'
import { type Kind, kinds, makePlace, run, start, uid } from './place.ts'

describe.each(kinds)('an enclosure made by %s', (kind) => {
  const place = makePlace(kind)
  const { root, box } = place
  const server = createServer((socket) => socket.end('the host'))
  let outcome: Outcome
  const said = (name: string) =>
    outcome.output.split(`<${name}>\n`)[1]?.split(`</${name}>`)[0] ?? 'it was not tried'

  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    const tcp = (host: string, to: number) => `timeout 5 bash -c 'cat </dev/tcp/${host}/${to}' 2>&1`
    const tries: Record<string, string> = {
      files: `cat '${root}/admin-key' '${box}/agent/token' '${root}/sandboxes/two/file' 2>&1; ls '${root}' '${root}/sandboxes' '${box}'`,
      write: `echo w > "$HOME/w"; echo w > w; echo w > /tmp/written-inside; cat '${box}/tmp/written-inside'; echo w > '${box}/config/plugin.mjs'; echo w > '${box}/config/new'; echo w > /usr/w; echo w > /etc/w; echo w > /w; true`,
      rename: `mv '${root}' /tmp/moved 2>&1; mv '${box}' '${box}2' 2>&1; mv '${box}/config' '${box}/config2' 2>&1`,
      nested: `unshare --user --map-root-user --mount sh -c "mount -o remount,rw '${box}/config'; umount '${box}/config'; umount -l /usr; mount -o remount,bind,rw /usr; echo w > '${box}/config/plugin.mjs'" 2>&1; cat '${box}/config/plugin.mjs'`,
      contract: `cd "$HOME/.config/opencode"; cat plugin/proliferate.mjs opencode.json '${box}/config/opencode.json'; echo w > plugin/proliferate.mjs; echo w > plugin/more.mjs; rm -f opencode.json; cd; mv .config/opencode moved; rm -rf .config; mv .config moved2; echo after; cat .config/opencode/plugin/proliferate.mjs; echo w > .config/other && cat .config/other`,
      processes: `ps -e -o args= | grep -v ' ps \\|grep'; ls /proc | grep -c '^[0-9]'`,
      network: `tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; wc -l </proc/net/route`,
      host: tcp('127.0.0.1', port),
      metadata: tcp('169.254.169.254', 80),
      relay: tcp('127.0.0.1', 4000),
      proxy: `${tcp('127.0.0.1', 4001)}; echo $HTTPS_PROXY`,
      bash: `"$SHELL" -c 'echo "environment: $OPENCODE_SERVER_PASSWORD$SANDBOX_MCP_AUTH_TOKEN"; for pid in 1 $PPID; do cat /proc/$pid/environ /proc/$pid/mem; ls -l /proc/$pid/root/; done; id -u' 2>&1`,
      path: 'echo "$PATH"; "$SHELL" -c \'echo "$PATH"\'',
      who: 'id -un; cd ~; pwd; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status',
      devices: 'ls /dev | tr "\\n" " "; echo x > /dev/null && head -c 2 /dev/urandom | wc -c',
    }
    const steps = Object.entries(tries).map(
      ([name, command]) => `echo '<${name}>'; ${command}; echo '</${name}>'`,
    )
    const serve = `'${process.execPath}' -e "require('net').createServer((c)=>c.end('from inside',()=>process.exit())).listen(4096,'127.0.0.1',()=>console.log('listening'))"`
    const script = ['exec 2>&1', ...steps, serve].join('\n')
    outcome = await run(kind, { ...place.order, script })
  }, 60_000)
  afterAll(async () => {
    server.close()
    await place.remove()
  })

  test('[WALL1] is full, and says how', () => {
    expect(outcome).toMatchObject({ refused: null, report: { level: 'full', why: null } })
  })

  test("[WALL1] neither the stack's state, nor the agent's folder, nor another sandbox exists in it", () => {
    expect(said('files')).not.toContain('TOP SECRET')
    expect(said('files').match(/No such file/g)).toHaveLength(3)
    const listed = said('files')
      .split('\n')
      .filter((line) => !line.includes('No such file'))
    expect(listed.join(' ')).not.toMatch(/admin-key|agent|two/)
    expect(listed.join(' ')).toMatch(/config.*home.*tmp.*workspace/)
  })

  test('[WALL1] it sees its own processes only, and is who it should be, without any right', () => {
    expect(said('processes')).not.toMatch(/vitest|enclosed-main/)
    expect(Number(said('processes').trim().split('\n').at(-1))).toBeLessThan(12)
    const user = isRoot ? uid : process.getuid?.()
    expect(said('bash').trim().split('\n').at(-1)).toBe(String(user))
    expect(said('who')).toMatch(/^agent\n.*home\nCapEff:\t0+\nNoNewPrivs:\t1\n/)
    expect(said('devices')).toMatch(/^fd full null ptmx pts random shm std.* tty urandom zero 2\n$/)
  })

  test('[WALL1] its PATH is the one that it was started with, also for bash', () => {
    expect(said('path')).toBe(`${process.env['PATH']}\n${process.env['PATH']}\n`)
  })

  test('[WALL2] home, workspace and temporary folder are writable; what the gate loads and the system are not', () => {
    for (const file of ['home/w', 'workspace/w', 'tmp/written-inside'])
      expect(existsSync(join(box, file))).toBe(true)
    expect(said('write')).toMatch(/^w$/m)
    const refusals = outcome.output.match(/Read-only file system/g) ?? []
    expect(refusals.length).toBeGreaterThanOrEqual(5)
    expect(existsSync(join(box, 'config', 'new'))).toBe(false)
  })

  test('[WALL2] what leads to the gate cannot be renamed, and a namespace inside cannot change a mount', () => {
    expect(said('rename').match(/^mv: cannot /gm)?.length).toBeGreaterThanOrEqual(3)
    expect(said('nested').trim().split('\n').at(-1)).toBe('the gate')
  })

  test("[WALL19] the contract's place of the plugin is the loaded one, named by the configuration, and cannot be changed", () => {
    const [plugin, ...rest] = said('contract').split('\n')
    expect(plugin).toBe('the loaded plugin')
    const named = JSON.stringify({
      plugin: [`${box}/home/.config/opencode/plugin/proliferate.mjs`],
    })
    expect(rest.join('\n').split(named)).toHaveLength(3)
    expect(said('contract').match(/Read-only file system/g)?.length).toBeGreaterThanOrEqual(3)
    expect(said('contract')).toMatch(/\nafter\nthe loaded plugin\nw\n$/)
  })

  test('[WALL3] its network is a loopback of its own: neither the host nor a metadata address is reached', () => {
    expect(said('network')).toBe('lo\n1\n')
    expect(said('host')).toContain('Connection refused')
    expect(said('metadata')).toContain('Network is unreachable')
  })

  test('[WALL4] it reaches the relay by a port of its own, and the agent reaches its port', () => {
    expect(said('relay')).toBe('the relay\n')
    expect(said('proxy')).toBe('the proxy\nhttp://127.0.0.1:4001\n')
    expect(outcome.inside).toBe('from inside')
  })

  test("[WALL5] bash reads neither OpenCode's environment nor its memory nor its files", () => {
    expect(said('bash')).toContain('environment: \n')
    expect(said('bash')).not.toMatch(/PASSWORD|LOCALTOKEN/)
    expect(said('bash').match(/Permission denied/g)?.length).toBeGreaterThanOrEqual(6)
  })

  test('[WALL6] everything in it ends with whoever built it, also what has a session of its own', async () => {
    const script = 'setsid sleep 1000 & setsid env -i sleep 1000 & sleep 1000'
    const stays = makePlace(kind)
    const child = start(kind, { ...stays.order, script }, '--stay')
    const line = await new Promise<string>((resolve) =>
      child.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString())),
    )
    const { pid, init } = JSON.parse(line) as { pid: number; init: number }
    await expect.poll(() => findMarked(stays.marked).length).toBeGreaterThanOrEqual(4)
    process.kill(pid, 'SIGKILL')
    await expect.poll(() => existsSync(`/proc/${init}`)).toBe(false)
    child.kill('SIGKILL')
    await stays.remove()
  })
})

describe.each(kinds)('[WALL17] bombs in an enclosure made by %s', (kind) => {
  test('neither processes nor the memory of one pass the limits, and the rest goes on', async () => {
    const place = makePlace(kind)
    place.order.boot.limits = { processes: 60, memoryMb: 300 }
    const script = `exec 2>&1
"$SHELL" -c 'ulimit -Hu unlimited || echo held; unshare -Ur prlimit --pid $$ --nproc=999 || echo held'
'${process.execPath}' -e 'new ArrayBuffer(5 * 2 ** 30); console.log("some"); new ArrayBuffer(7 * 2 ** 30)'
"$SHELL" -c 'exec sh -c "for n in $(seq 200 | xargs); do sleep 20 & done"'
set -- /proc/[0-9]*
echo "$# processes, still here"`
    const { output } = await run(kind, { ...place.order, script })
    expect(output.match(/^held$/gm)).toHaveLength(2)
    expect(output).toMatch(/some[^]*Array buffer allocation failed/)
    expect(output).toContain('Cannot fork')
    const count = Number(/(\d+) processes, still here/.exec(output)?.[1])
    expect(count).toBeGreaterThan(40)
    expect(count).toBeLessThanOrEqual(60)
    await place.remove()
  }, 60_000)

  test('where the machine has control groups, the memory of all together does not pass the limit either', async (context) => {
    const place = makePlace(kind)
    place.order.boot.limits = { processes: 60, memoryMb: 300 }
    // Six of 100 MB, each far below what one may have.
    const hog = `'${process.execPath}' -e 'const kept = Buffer.alloc(1e8, 1); setTimeout(() => console.log(kept.length > 0 ? "held" : ""), 3000)'`
    const script = `exec 2>&1; for n in 1 2 3 4 5 6; do ${hog} & done; wait; echo over`
    const { output, report } = await run(kind, { ...place.order, script })
    await place.remove()
    unless(report.how.includes('control group'), context, 'control groups')
    expect(output.match(/^held$/gm)?.length ?? 0).toBeLessThan(4)
    expect(output).toContain('over')
  }, 60_000)

  test('the report says whether memory is limited or watched', async () => {
    const place = makePlace(kind)
    const { report } = await run(kind, { ...place.order, script: 'true' })
    await place.remove()
    expect(report.how).toMatch(
      /^namespaces (made by root, user \d+|of a user namespace); memory (watched|and processes limited by (a control group|control groups))$/,
    )
  })
})

describe('[WALL7] what cannot be entered', () => {
  test('is refused with the reason, before the command runs', async () => {
    const place = makePlace(kinds[0] as Kind)
    const script = `echo ran; touch '${place.box}/workspace/ran'`
    const order = { ...place.order, script, marks: {} }
    // No folder to mount: the walls cannot be built.
    order.manifest.layout.home = '/nowhere'
    const outcome = await run(kinds[0] as Kind, order)
    expect(outcome.refused).toContain('nowhere')
    expect(outcome.output).not.toContain('ran\n')
    expect(existsSync(join(place.box, 'workspace', 'ran'))).toBe(false)
    await place.remove()
  })
})

describe('[WALL1] folders on PATH', () => {
  const layout = {
    ...{ home: '/s/home', workspace: '/s/workspace', configDir: '/s/config' },
    ...{ envFile: '/s/tmp/env.json', hostname: '127.0.0.1', port: 0 },
  }
  const seen = (path: string[], hidden: string[] = []) =>
    findPlaces({ layout, binaries: [], path, hidden })
      .binds.filter(({ writable }) => !writable)
      .map(({ target }) => target)

  test('come with the install root that they belong to, read-only', () => {
    const root = mkdtempSync(join(tmpdir(), 'gantry-tools-'))
    mkdirSync(join(root, '.nvm/versions/node/v24/bin'), { recursive: true })
    expect(seen([join(root, '.nvm/versions/node/v24/bin')])).toContain(
      join(root, '.nvm/versions/node/v24'),
    )
    rmSync(root, { recursive: true })
  })

  test('come alone if the root holds credentials or what must not be seen, and not at all if it is a home', () => {
    const root = mkdtempSync(join(tmpdir(), 'gantry-tools-'))
    for (const folder of ['.cargo/bin', 'checkout/bin', 'checkout/.gantry'])
      mkdirSync(join(root, folder), { recursive: true })
    writeFileSync(join(root, '.cargo/credentials.toml'), '')
    const found = seen(
      [join(root, '.cargo/bin'), join(root, 'checkout/bin'), '/root', '/'],
      [join(root, 'checkout/.gantry')],
    )
    expect(found.filter((path) => path.startsWith(root))).toEqual([
      join(root, '.cargo/bin'),
      join(root, 'checkout/bin'),
    ])
    expect(found).not.toContain('/root')
    expect(found).not.toContain('/')
    rmSync(root, { recursive: true })
  })
})

asRoot('[WALL6] an operation that root has enclosed ends with its walls, too', async () => {
  const mark = `GANTRY_TEST=${randomInt(1e9)}`
  const limits = { memoryBytes: 2 ** 30, processes: 64 }
  const line = encloseRun('root', { uid, gid: uid }, { network: false, limits }, 'sleep 1000')
  const env = { PATH: process.env['PATH'] ?? '', [mark.split('=')[0] ?? '']: mark.split('=')[1] }
  const child = spawn(line.file, line.args, { stdio: 'ignore', env, detached: true })
  const found = () => findMarked({ mark, uid: undefined })
  await expect.poll(() => found().length).toBeGreaterThanOrEqual(3)
  process.kill(child.pid ?? 0, 'SIGKILL')
  await expect.poll(found).toEqual([])
})
