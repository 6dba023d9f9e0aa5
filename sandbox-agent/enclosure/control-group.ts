// A group of the kernel's for everything inside one enclosure: it limits the memory and the processes of all of them
// together. Made where the machine lets the agent make one: version 2 below a group that hands memory and pids down,
// or version 1. What cannot be made is left out, and the report says that memory is watched instead. Nobody who is not
// ours is moved. Groups that an agent which was killed has left are removed by the next one.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

export interface ControlGroup {
  /** For the report. */
  how: string
  /** Lines of sh: who runs them is in it from then on, with all that it starts. */
  enter: string[]
  /** Once everything in it has ended. */
  remove: () => void
}

export interface GroupLimits {
  processes: number
  memoryBytes: number
}

/** Where the kernel shows its groups, and where this process is in them. */
export interface GroupSites {
  mountinfo: string
  own: string
}

const readSites = (): GroupSites => ({
  mountinfo: readFileSync('/proc/self/mountinfo', 'utf8'),
  own: readFileSync('/proc/self/cgroup', 'utf8'),
})

let made = 0

/** undefined: this machine lets us make none. */
export function makeControlGroup(
  limits: GroupLimits,
  sites: () => GroupSites = readSites,
): ControlGroup | undefined {
  if (process.platform !== 'linux') return undefined
  const name = `gantry-${process.pid}-${(made += 1)}`
  for (const plan of controlGroupPlans(sites(), limits)) {
    for (const { parent } of plan.parts) sweep(parent)
    const folders = plan.parts.map(({ parent }) => join(parent, name))
    const remove = () => removeSoon(folders)
    if (folders.every((folder, n) => tryToMake(folder, plan.parts[n]?.files ?? {})))
      return { how: plan.how, enter: folders.map(enterLine), remove }
    for (const folder of folders) removeFolder(folder)
  }
  return undefined
}

/** 0 is whoever writes it. */
const enterLine = (folder: string) => `echo 0 >'${folder}/cgroup.procs'`

interface Plan {
  how: string
  parts: { parent: string; files: Record<string, string> }[]
}

/** Those that may work, the best first. */
export function controlGroupPlans({ mountinfo, own }: GroupSites, limits: GroupLimits): Plan[] {
  const mounts = parseMounts(mountinfo)
  const placeIn = (controller: string) => parseOwn(own, controller)
  const memory = String(limits.memoryBytes)
  const pids = { 'pids.max': String(limits.processes) }
  const second = mounts
    .filter(({ type }) => type === 'cgroup2')
    .flatMap((mount) => upwards(mount, placeIn('')))
    .map((parent) => ({
      how: 'memory and processes limited by a control group',
      parts: [{ parent, files: { 'memory.max': memory, 'memory.swap.max': '0', ...pids } }],
    }))
  const first = (controller: string) =>
    mounts
      .filter(({ type, options }) => type === 'cgroup' && options.includes(controller))
      .flatMap((mount) => inMount(mount, placeIn(controller)) ?? [])[0]
  const [ofMemory, ofPids] = [first('memory'), first('pids')]
  if (ofMemory === undefined || ofPids === undefined) return second
  const parts = [
    { parent: ofMemory, files: { 'memory.limit_in_bytes': memory } },
    { parent: ofPids, files: pids },
  ]
  return [...second, { how: 'memory and processes limited by control groups', parts }]
}

interface Mount {
  root: string
  point: string
  type: string
  options: string[]
}

function parseMounts(text: string): Mount[] {
  return text.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , root, point] = before.split(' ')
    const [type = '', , options = ''] = after.split(' ')
    return root && point ? [{ root, point, type, options: options.split(',') }] : []
  })
}

/** Version 2 has no name of a controller. */
function parseOwn(text: string, controller: string): string | undefined {
  const lines = text.split('\n').map((line) => line.split(':'))
  return lines.find(([, names = '']) => names.split(',').includes(controller))?.[2]
}

/** The folder of a group; undefined: it is not below what is mounted. */
function inMount({ root, point }: Mount, path: string | undefined): string | undefined {
  if (path === undefined) return undefined
  if (root === '/') return resolve(point, `.${path}`)
  const isBelow = path === root || path.startsWith(`${root}/`)
  return isBelow ? resolve(point, `.${path.slice(root.length)}`) : point
}

/** The own group and those above it that hand both controllers down. */
function upwards(mount: Mount, path: string | undefined): string[] {
  const own = inMount(mount, path)
  const found: string[] = []
  for (let at = own; at?.startsWith(mount.point); at = dirname(at)) {
    const given = readOr(join(at, 'cgroup.subtree_control')).split(/\s+/)
    if (given.includes('memory') && given.includes('pids')) found.push(at)
  }
  return found
}

/** Somebody is put into it for a moment, since that may be refused where all else is not. */
function tryToMake(folder: string, files: Record<string, string>): boolean {
  try {
    mkdirSync(folder)
    for (const [file, value] of Object.entries(files))
      // Not every kernel counts what is swapped out.
      if (file !== 'memory.swap.max' || existsSync(join(folder, file)))
        writeFileSync(join(folder, file), value)
    return spawnSync('/bin/sh', ['-c', enterLine(folder)], { stdio: 'ignore' }).status === 0
  } catch {
    return false
  }
}

/** Left by agents that are gone. One that is in use cannot be removed. */
function sweep(parent: string): void {
  for (const name of foldersIn(parent)) {
    const [, pid] = /^gantry-(\d+)-\d+$/.exec(name) ?? []
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) removeFolder(join(parent, name))
  }
}

function foldersIn(parent: string): string[] {
  try {
    return readdirSync(parent)
  } catch {
    return []
  }
}

/** What has just been killed is still in it for a moment. */
function removeSoon(folders: readonly string[], tries = 50): void {
  const left = folders.filter((folder) => !removeFolder(folder))
  if (left.length > 0 && tries > 0) setTimeout(() => removeSoon(left, tries - 1), 100).unref()
}

/** True: it is not there any more. */
function removeFolder(folder: string): boolean {
  try {
    rmdirSync(folder)
  } catch {
    return !existsSync(folder)
  }
  return true
}

function readOr(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
