import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import {
  makeControlGroup,
  controlGroupPlans,
} from '../../../sandbox-agent/enclosure/control-group.ts'

const limits = { processes: 50, memoryBytes: 1000 }

/** Folders as the kernel shows them: what its files say is told by their content. */
function makeKernel(groups: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-groups-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const [path, given] of Object.entries(groups)) {
    mkdirSync(join(folder, path), { recursive: true })
    writeFileSync(join(folder, path, 'cgroup.subtree_control'), given)
  }
  return folder
}
const mount = (point: string, type: string, options = 'rw', root = '/') =>
  `30 20 0:26 ${root} ${point} rw,nosuid - ${type} ${type} ${options}\n`

test('[WALL17] version 2: below the nearest group that hands memory and pids down', () => {
  const kernel = makeKernel({ '': 'cpu memory pids', a: 'memory pids', 'a/b': 'cpu', 'a/b/c': '' })
  const sites = { mountinfo: mount(kernel, 'cgroup2'), own: '0::/a/b/c\n' }
  expect(
    controlGroupPlans(sites, limits).map(({ parts }) => parts.map(({ parent }) => parent)),
  ).toEqual([[join(kernel, 'a')], [kernel]])
  const group = makeControlGroup(limits, () => sites)
  const [name = ''] = readdirSync(join(kernel, 'a')).filter((each) => each.startsWith('gantry-'))
  const read = (file: string) => readFileSync(join(kernel, 'a', name, file), 'utf8')
  expect(group?.how).toBe('memory and processes limited by a control group')
  expect(group?.enter).toEqual([`echo 0 >'${join(kernel, 'a', name)}/cgroup.procs'`])
  expect([read('memory.max'), read('pids.max'), read('cgroup.procs')]).toEqual([
    '1000',
    '50',
    '0\n',
  ])
})

test('[WALL17] version 1: one group for memory and one for processes, in the own ones', () => {
  const kernel = makeKernel({ 'memory/x': '', pids: '' })
  const sites = {
    mountinfo:
      mount(join(kernel, 'memory'), 'cgroup', 'rw,memory') +
      mount(join(kernel, 'pids'), 'cgroup', 'rw,pids'),
    own: '9:name=systemd:/\n4:memory:/x\n8:pids:/\n0::/\n',
  }
  expect(controlGroupPlans(sites, limits)).toMatchObject([
    {
      parts: [
        { parent: join(kernel, 'memory/x'), files: { 'memory.limit_in_bytes': '1000' } },
        { parent: join(kernel, 'pids'), files: { 'pids.max': '50' } },
      ],
    },
  ])
  expect(makeControlGroup(limits, () => sites)?.enter).toHaveLength(2)
})

test.each([
  ['no groups are shown', { mountinfo: '', own: '0::/\n' }],
  ['nothing is handed down', { mountinfo: mount('KERNEL', 'cgroup2'), own: '0::/none\n' }],
  [
    'they cannot be written',
    { mountinfo: mount('/proc', 'cgroup', 'rw,memory,pids'), own: '4:memory,pids:/\n' },
  ],
])('[WALL17] none where %s', (_, { mountinfo, own }) => {
  const kernel = makeKernel({ none: 'cpu' })
  const sites = { mountinfo: mountinfo.replace('KERNEL', kernel), own }
  expect(makeControlGroup(limits, () => sites)).toBeUndefined()
})

test('[WALL17] what an agent that is gone has left is removed', () => {
  const kernel = makeKernel({ '': 'memory pids' })
  for (const name of ['gantry-99999999-1', `gantry-${process.pid}-999`, 'other'])
    mkdirSync(join(kernel, name))
  makeControlGroup(limits, () => ({ mountinfo: mount(kernel, 'cgroup2'), own: '0::/\n' }))
  const left = readdirSync(kernel)
  expect(left).not.toContain('gantry-99999999-1')
  expect(left).toEqual(expect.arrayContaining([`gantry-${process.pid}-999`, 'other']))
})
