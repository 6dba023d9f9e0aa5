import { Socket } from 'node:net'
import { basename } from 'node:path'
import { commandOf, parentOf } from './processes.ts'

const pollMs = 300
const shells = new Set(['sh', 'dash', 'bash', 'zsh', 'busybox'])

/**
 * Calls back once the launcher, or the npm that ran it, is gone: a SIGKILL to either says nothing to this process.
 * The launcher is watched through its pipe; npm knows no pipe, so the chain of parents up to it is looked at.
 */
export function onParentGone(callback: (who: string) => void): void {
  let called = false
  const once = (who: string) => {
    if (called) return
    called = true
    callback(who)
  }
  watchLauncher(once)
  if (process.env['npm_lifecycle_event'] !== undefined) watchNpm(once)
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

function watchNpm(once: (who: string) => void): void {
  const chain = parentChain()
  const timer = setInterval(() => {
    const broken = chain.some(({ pid, parent }) => parentOf(pid) !== parent)
    if (!broken) return
    clearInterval(timer)
    once('npm')
  }, pollMs)
  timer.unref()
}

// This process, the launcher, and a shell if npm's shell did not replace itself with the launcher.
function parentChain(): { pid: number; parent: number }[] {
  const chain: { pid: number; parent: number }[] = []
  for (let pid = process.pid; chain.length < 3;) {
    const parent = parentOf(pid)
    if (parent === undefined || parent <= 1) break
    chain.push({ pid, parent })
    if (chain.length === 2 && !shells.has(basename(commandOf(parent)))) break
    pid = parent
  }
  return chain
}
