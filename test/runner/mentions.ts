import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** The live processes, without this one, that have the text in environment, arguments or working folder. */
export function findMentioning(text: string): number[] {
  const pids = process.platform === 'linux' ? findByProc(text) : findByPs(text)
  return pids.filter((pid) => pid !== process.pid)
}

function findByProc(text: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  // A zombie has neither environment nor arguments nor folder.
  return pids.filter((pid) => mentions(pid, text)).map(Number)
}

const mentions = (pid: string, text: string): boolean =>
  read(`/proc/${pid}/environ`).includes(text) ||
  read(`/proc/${pid}/cmdline`).includes(text) ||
  folderOf(pid).startsWith(text)

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return '' // gone, or another user's
  }
}

function folderOf(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}

function findByPs(text: string): number[] {
  return execFileSync('ps', ['eww', '-axo', 'pid=,command='], { encoding: 'utf8', maxBuffer: 64e6 })
    .split('\n')
    .filter((line) => line.includes(text))
    .map((line) => Number.parseInt(line, 10))
}

export function commandLine(pid: number): string {
  if (process.platform === 'linux') return read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ')
  try {
    return execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).trim()
  } catch {
    return ''
  }
}
