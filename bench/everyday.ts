// Everyday work inside an enclosure against the same work without one: the same programs, the same files, the same user.
// Time is of all commands together; memory is what the walls themselves keep resident, beside a Node that does the work.

import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { binary } from '../local/binaries.ts'
import {
  chooseEnclosures,
  type Enclosure,
  openEnclosure,
} from '../sandbox-agent/enclosure/enclosure.ts'
import type { Row } from './table.ts'

const rounds = 5
const owner = process.getuid?.() === 0 ? { uid: 43_210, gid: 43_210 } : undefined

/** Many small processes and files, as builds and tests are; nothing that waits for a network. */
const work = `set -e
mkdir w && cd w && git init -q . && git config user.email a@b && git config user.name a
i=0; while [ $i -lt 400 ]; do echo "export const x$i = $i" > f$i.mjs; i=$((i+1)); done
git add -A && git commit -qm one
for n in 1 2 3 4 5 6 7 8; do node -e "for (let n = 0; n < 400; n++) require('fs').readFileSync('f' + n + '.mjs')"; git status --porcelain | wc -l; grep -r x399 . | wc -l; done
node -e "const s = require('http').createServer((q, r) => r.end('ok')).listen(4321, '127.0.0.1', () => fetch('http://127.0.0.1:4321/').then(() => s.close()))"
tar cf t.tar f*.mjs && rm -rf .git f*.mjs && tar xf t.tar && cd .. && rm -rf w`

export async function measureEveryday(folder: string): Promise<Row[]> {
  mkdirSync(folder, { recursive: true })
  const place = makePlace(folder)
  const serve = { relay: ignore, proxy: ignore, socks: ignore }
  const path = (process.env['PATH'] ?? '/usr/bin:/bin').split(':')
  const input = { ...place, owner, path, marks: {}, serve }
  const [enclosed] = chooseEnclosures(input) as [Enclosure]
  const open = openEnclosure(owner, '')
  const times: Record<'open' | 'again' | 'enclosed', number[]> = {
    open: [],
    again: [],
    enclosed: [],
  }
  for (let round = 0; round <= rounds; round += 1) {
    const [before, inside, after] = [
      await timed(open, place.layout.workspace),
      await timed(enclosed, place.layout.workspace),
      await timed(open, place.layout.workspace),
    ]
    // The first is for the caches.
    if (round === 0) continue
    times.open.push(before)
    times.enclosed.push(inside)
    times.again.push(after)
  }
  const baseMb = await residentMb(open, place.layout.workspace)
  const oursMb = await residentMb(enclosed, place.layout.workspace)
  const baseAgainMb = await residentMb(open, place.layout.workspace)
  rmSync(place.root, { recursive: true, force: true })
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

const ignore = (): void => undefined

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
async function timed(enclosure: Enclosure, cwd: string): Promise<number> {
  const launched = launch(enclosure, cwd, `date +%s%N; (${work}) >/dev/null; echo $?; date +%s%N`)
  let said = ''
  launched.child.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString()))
  await Promise.all([launched.entered, new Promise((end) => launched.child.once('close', end))])
  const [begun, code, ended] = said.split('\n').filter((line) => /^\d+$/.test(line))
  if (code !== '0') throw new Error(`The work failed: ${said}`)
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
