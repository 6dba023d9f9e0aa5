// Everyday work inside an enclosure against the same work without one: the same programs and the same files, round by
// round. Inside, what is fetched comes through the proxy; outside, straight from the same server. Time is of all commands
// together; memory is what the walls themselves keep resident, beside a Node that does the work.

import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { binary } from '../local/binaries.ts'
import {
  chooseEnclosures,
  type Enclosure,
  openEnclosure,
} from '../sandbox-agent/enclosure/enclosure.ts'
import { Egress } from '../sandbox-agent/enclosure/egress.ts'
import { type PackageServer, servePackages } from '../test/support/package-server.ts'
import type { Row } from './table.ts'

const rounds = 3
const owner = process.getuid?.() === 0 ? { uid: 43_210, gid: 43_210 } : undefined
/** Also for a user with a new home: rustup's cargo is nothing without the home of whoever has chosen a version. */
const isThere = (program: string): boolean => {
  const env = { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: '/nowhere' }
  return spawnSync(program, ['--version'], { env, ...owner }).status === 0
}

/** Clone, install, build, test, a server that is asked, commit; then many small processes and files, as builds are. */
const workOn = (host: string, port: number): string => `set -e
HOME=$PWD/w/home; export HOME; mkdir -p "$HOME"; cd w
git clone -q http://${host}:${port}/repo.git repo; cd repo
git config user.email a@b; git config user.name a
printf 'own\ntarget\nnode_modules\n' >.gitignore
npm install --silent --no-audit --no-fund --registry=http://${host}:${port} left
node -e "require('left')"
${isThere('python3') ? python(host, port) : ''}
${isThere('cargo') ? cargo(host, port) : ''}
i=0; while [ $i -lt 400 ]; do echo "export const x$i = $i" >f$i.mjs; i=$((i+1)); done
for n in 1 2 3; do echo "require('node:test')('t', () => {})" >t$n.test.cjs; done
node --test >/dev/null
git add -A; git commit -qm one
for n in 1 2 3 4; do node -e "for (let n = 0; n < 400; n++) require('fs').readFileSync('f' + n + '.mjs')"; git status --porcelain; grep -r x399 --include=*.mjs . ; done
node -e "require('http').createServer((q, r) => r.end('ok', () => process.exit())).listen(4321, '127.0.0.1', () => console.log('up'))" | { read up; curl -sS http://127.0.0.1:4321/; }
tar cf t.tar f*.mjs; rm -f f*.mjs; tar xf t.tar; git commit -qam two --allow-empty
cd ../..; rm -rf w`

const python = (host: string, port: number): string => `python3 -m venv own
own/bin/pip install -q --disable-pip-version-check --trusted-host ${host} --index-url http://${host}:${port}/simple left
own/bin/python -c 'import left'`

const cargo = (host: string, port: number): string => `mkdir src
echo 'pub fn two() -> u8 { left::left() + 1 }' >src/lib.rs
printf '[package]\nname = "two"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nleft = { version = "1", registry = "own" }\n' >Cargo.toml
CARGO_REGISTRIES_OWN_INDEX=sparse+http://${host}:${port}/ cargo build -q`

export async function measureEveryday(folder: string): Promise<Row[]> {
  mkdirSync(folder, { recursive: true })
  const place = makePlace(folder)
  const inside = await servePackages(insideHost)
  const outside = await servePackages('127.0.0.1')
  try {
    return await measure(place, { inside, outside })
  } finally {
    for (const server of [inside, outside]) server.close()
    rmSync(place.root, { recursive: true, force: true })
  }
}

const insideHost = 'packages.test'

type Servers = Record<'inside' | 'outside', PackageServer>

async function measure(place: Place, { inside, outside }: Servers): Promise<Row[]> {
  const path = (process.env['PATH'] ?? '/usr/bin:/bin').split(':')
  const serve = { relay: () => undefined, ...serveEgress(`${insideHost}:${inside.port}`) }
  const [enclosed] = chooseEnclosures({ ...place, owner, path, marks: {}, serve }) as [Enclosure]
  // As whoever runs this: another user reaches no program that lies in a home.
  const open = openEnclosure(undefined, '')
  const times: Record<'open' | 'again' | 'enclosed', number[]> = {
    open: [],
    again: [],
    enclosed: [],
  }
  const work = (enclosure: Enclosure) =>
    timed(
      enclosure,
      place.layout.workspace,
      enclosure === open ? workOn('127.0.0.1', outside.port) : workOn(insideHost, inside.port),
    )
  for (let round = 0; round <= rounds; round += 1) {
    const [before, within, after] = [await work(open), await work(enclosed), await work(open)]
    // The first is for the caches.
    if (round === 0) continue
    times.open.push(before)
    times.enclosed.push(within)
    times.again.push(after)
  }
  const baseMb = await residentMb(open, place.layout.workspace)
  const oursMb = await residentMb(enclosed, place.layout.workspace)
  const baseAgainMb = await residentMb(open, place.layout.workspace)
  return [
    {
      ...{ measure: 'everyday work in an enclosure / without', unit: 'ms' },
      ...{ ours: median(times.enclosed), base: median(times.open), baseAgain: median(times.again) },
      aim: { most: 1.1 },
    },
    {
      ...{ measure: 'memory of a Node in an enclosure with its walls / without', unit: 'MB' },
      ...{ ours: oursMb, base: baseMb, baseAgain: baseAgainMb },
      aim: { most: 1.08 },
    },
  ]
}

/** The proxy of the agent, to which every name is this machine. */
function serveEgress(target: string) {
  const egress = new Egress({
    decide: async () => ({ allow: true, reason: '' }),
    privateHosts: () => [target],
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
  })
  return {
    proxy: (server: Server) => egress.serve(server),
    socks: (server: Server) => egress.serveSocks(server),
  }
}

type Place = ReturnType<typeof makePlace>

function makePlace(folder: string) {
  const root = mkdtempSync(join(folder.startsWith('/') ? folder : tmpdir(), 'everyday-'))
  for (const path of [folder, root]) chmodSync(path, 0o755)
  const at = (name: string) => join(root, name)
  for (const name of ['home', 'workspace', 'config', 'tmp', 'agent']) mkdirSync(at(name))
  if (owner)
    for (const name of ['home', 'workspace', 'tmp']) chownSync(at(name), owner.uid, owner.gid)
  const layout = {
    ...{ home: at('home'), workspace: at('workspace'), configDir: at('config') },
    ...{ envFile: at('tmp/env.json'), hostname: '127.0.0.1', port: 0 },
  }
  const boot = { stateDir: at('agent'), opencode: binary('opencode') }
  return { root, layout, boot, manifest: { layout } }
}

function launch(enclosure: Enclosure, cwd: string, script: string) {
  const environment = { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: cwd }
  const command = { file: '/bin/sh', args: ['-c', script], cwd, masks: [] }
  return enclosure.launch({
    ...command,
    environment: { ...environment, ...enclosure.environment },
  })
}

/** Of the work alone: entering is a part of the start, which has a row of its own. */
async function timed(enclosure: Enclosure, cwd: string, work: string): Promise<number> {
  const launched = launch(enclosure, cwd, `date +%s%N; (${work}) >/dev/null; echo $?; date +%s%N`)
  let [said, complained] = ['', '']
  launched.child.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString()))
  launched.child.stderr?.on('data', (chunk: Buffer) => (complained += chunk.toString()))
  await Promise.all([launched.entered, new Promise((end) => launched.child.once('close', end))])
  const [begun, code, ended] = said.split('\n').filter((line) => /^\d+$/.test(line))
  if (code !== '0') throw new Error(`The work failed: ${said}${complained.slice(-2000)}`)
  return (Number(ended) - Number(begun)) / 1e6
}

/** Of everything that was started, once it rests: shared pages count by their share. */
async function residentMb(enclosure: Enclosure, cwd: string): Promise<number> {
  const script = `exec node -e "console.log('up'); setTimeout(() => {}, 1e6)"`
  const launched = launch(enclosure, cwd, script)
  await launched.entered
  await new Promise<void>((resolve) =>
    launched.child.stdout?.on('data', (chunk: Buffer) => chunk.includes('up') && resolve()),
  )
  const pid = launched.child.pid ?? 0
  const ended = new Promise((end) => launched.child.once('close', end))
  const kb = familyOf(pid).reduce((sum, each) => sum + shareKb(each), 0)
  process.kill(-pid, 'SIGKILL')
  await ended
  return kb / 1024
}

function familyOf(pid: number): number[] {
  const listed = execFileSync('ps', ['-e', '-o', 'pid=,ppid='], { encoding: 'utf8' })
  const pairs = listed
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
  const found = [pid]
  for (const parent of found)
    for (const [child = 0, of] of pairs) if (of === parent) found.push(child)
  return found
}

function shareKb(pid: number): number {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    return Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0)
  } catch {
    return 0 // gone meanwhile
  }
}

const median = (values: number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
