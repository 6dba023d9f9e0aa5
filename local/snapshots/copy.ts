import { execFile } from 'node:child_process'
import { lstatSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Refusal } from './refusal.ts'
import { homeLeftOut } from './scrub.ts'

const run = promisify(execFile)
// A copy shares its blocks with the original where the file system can do that.
const flags = process.platform === 'linux' ? ['-a', '--reflink=auto'] : ['-a']
/** A command line has a maximum length. */
const sourcesAtOnce = 500

interface CopyLimits {
  signal: AbortSignal
  timeoutMs: number
  env?: Record<string, string>
}

/** Files that are copied into one folder. */
interface Portion {
  sources: string[]
  target: string
}

/** What of a sandbox goes into a snapshot: the whole workspace, and the home without what must not travel. */
export function planCopy(sandbox: string, target: string): Portion[] {
  for (const name of ['workspace', 'home']) {
    if (!isFolder(join(sandbox, name))) {
      throw new Refusal('unprocessable', `Cannot take the snapshot: there is no ${name} folder`)
    }
  }
  const leftOut = homeLeftOut.map((path) => path.split('/'))
  const home = planFolder(join(sandbox, 'home'), join(target, 'home'), leftOut)
  return [{ sources: [join(sandbox, 'workspace')], target }, ...home]
}

/** Goes down only where something below is left out; never through a symbolic link. */
function planFolder(from: string, to: string, leftOut: string[][]): Portion[] {
  const sources: string[] = []
  const below: Portion[] = []
  for (const name of readdirSync(from)) {
    const inside = leftOut.filter(([first]) => first === name).map(([, ...rest]) => rest)
    if (inside.length === 0) sources.push(join(from, name))
    else if (inside.every((rest) => rest.length > 0) && isFolder(join(from, name)))
      below.push(...planFolder(join(from, name), join(to, name), inside))
  }
  return [{ sources, target: to }, ...below]
}

/** About, in bytes: taken from a tree that may still change. */
export async function copySize(portions: Portion[], limits: CopyLimits): Promise<number> {
  let kibibytes = 0
  for (const { sources } of portions.flatMap(inPortions)) {
    const { stdout } = await run('du', ['-sk', '--', ...sources], options(limits)).catch(
      // du fails if files go away while it looks, and still counts the others.
      (error: { stdout?: string }) => ({ stdout: error.stdout ?? '' }),
    )
    for (const line of stdout.split('\n')) kibibytes += Number.parseInt(line, 10) || 0
  }
  return kibibytes * 1024
}

export async function copyPortions(portions: Portion[], limits: CopyLimits): Promise<void> {
  for (const { target } of portions) mkdirSync(target, { recursive: true })
  const until = Date.now() + limits.timeoutMs
  for (const { sources, target } of portions.flatMap(inPortions)) {
    await copy(sources, target, { ...limits, timeoutMs: Math.max(1, until - Date.now()) })
  }
}

/** Copies a snapshot into the folders of a new sandbox, in which nothing runs yet. */
export async function restoreCopy(
  snapshot: string,
  sandbox: string,
  limits: CopyLimits,
): Promise<void> {
  await copy([join(snapshot, 'workspace')], sandbox, limits)
  const home = join(snapshot, 'home')
  const sources = readdirSync(home).map((name) => join(home, name))
  // What the snapshot has replaces what a new home has, whatever kind of file it is.
  for (const name of readdirSync(home))
    rmSync(join(sandbox, 'home', name), { recursive: true, force: true })
  for (const portion of inPortions({ sources, target: join(sandbox, 'home') }))
    await copy(portion.sources, portion.target, limits)
}

async function copy(sources: string[], target: string, limits: CopyLimits): Promise<void> {
  try {
    await run('cp', [...flags, '--', ...sources, `${target}/`], options(limits))
  } catch (error) {
    limits.signal.throwIfAborted()
    const { killed, stderr = '', message } = error as Error & { killed?: boolean; stderr?: string }
    const why =
      killed === true ? 'it takes too long: make it smaller' : (stderr || message).slice(0, 300)
    throw new Refusal('unprocessable', `Cannot copy the files: ${why.trim()}`)
  }
}

const options = ({ signal, timeoutMs, env }: CopyLimits) => ({
  signal,
  timeout: timeoutMs,
  killSignal: 'SIGKILL' as const,
  encoding: 'utf8' as const,
  maxBuffer: 16e6,
  env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LANG: 'C.UTF-8', ...process.env, ...env },
})

function inPortions({ sources, target }: Portion): Portion[] {
  const portions: Portion[] = []
  for (let at = 0; at < sources.length; at += sourcesAtOnce)
    portions.push({ sources: sources.slice(at, at + sourcesAtOnce), target })
  return portions
}

const isFolder = (path: string) =>
  lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true
