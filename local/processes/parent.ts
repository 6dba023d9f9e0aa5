// Notices that the launcher, or the npm or `deno task` that ran it, is gone. This process gets no signal when one of
// them is killed. The launcher is watched through a pipe. The others have no pipe, so the chain of parents up to them
// is looked at again and again. `npm start`, `npm run libsql` and the test runner call it, to end when they are
// nobody's child any more.

import { Socket } from 'node:net'
import { basename } from 'node:path'
import { processArguments, processCommand, parentProcess } from './processes.ts'

const pollMs = 300
const shells = new Set(['sh', 'dash', 'bash', 'zsh', 'busybox'])

export function onParentGone(callback: (who: string) => void): void {
  let called = false
  const once = (who: string) => {
    if (called) return
    called = true
    callback(who)
  }
  watchLauncher(once)
  if (process.env['GANTRY_TASK'] === 'deno') watchChain(chainWhile(isDeno), 'deno task', once)
  else if (process.env['npm_lifecycle_event'] !== undefined)
    watchChain(chainWhile(isNpm), 'npm', once)
}

function watchLauncher(once: (who: string) => void): void {
  const fd = Number(process.env['GANTRY_PARENT_FD'])
  delete process.env['GANTRY_PARENT_FD']
  if (!Number.isInteger(fd) || fd < 3) return
  const pipe = new Socket({ fd, readable: true, writable: false })
  pipe.on('error', () => undefined)
  pipe.on('close', () => once('launcher'))
  pipe.resume()
  pipe.unref()
}

interface Descent {
  pid: number
  parent: number
}

function watchChain(chain: Descent[], name: string, once: (who: string) => void): void {
  const timer = setInterval(() => {
    const broken = chain.some(({ pid, parent }) => parentProcess(pid) !== parent)
    if (!broken) return
    clearInterval(timer)
    once(name)
  }, pollMs)
  timer.unref()
}

// The launcher, npm, and between them a shell if that did not replace itself with the launcher.
const isNpm = (_: number, below: Descent[]) =>
  below.length < 2 ||
  (below.length === 2 && shells.has(basename(processCommand(below[1]?.parent ?? 0))))

// The launcher, `deno task`, and the script of the npm package that ran that.
const isDeno = (parent: number) =>
  processArguments(parent)
    .slice(0, 2)
    .some((argument) => /^deno(\.cjs)?$/.test(basename(argument)))

/** From this process upwards, as long as the parent is one of those that started it. */
function chainWhile(isOurs: (parent: number, below: Descent[]) => boolean): Descent[] {
  const chain: Descent[] = []
  for (let pid = process.pid; ;) {
    const parent = parentProcess(pid)
    if (parent === undefined || parent <= 1 || !isOurs(parent, chain)) return chain
    chain.push({ pid, parent })
    pid = parent
  }
}
