import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { packWalls } from '../../../local/snapshots/pack-walls.ts'
import { searchSecret } from '../../../local/snapshots/secret-search.ts'
import { isRoot, onLinux } from '../../support/needs.ts'
import { tempDir } from '../support.ts'

const never = new AbortController().signal
const uid = isRoot ? 54_321 : undefined

/** A copy as a snapshot has it, in folders that are the host's alone, with everything in one pack. */
function makeCopy(content: string) {
  const folder = tempDir()
  const copy = join(folder, 'content')
  const scratch = join(folder, 'scratch')
  const repository = join(copy, 'workspace')
  for (const path of [copy, scratch, repository]) mkdirSync(path, { mode: 0o700 })
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', repository, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args])
  git('init', '-q')
  execFileSync('sh', ['-c', `printf '%s' "$1" > f`, 'sh', content], { cwd: repository })
  git('add', '-A')
  git('commit', '-qm', 'one')
  git('rm', '-q', 'f')
  git('commit', '-qm', 'two')
  git('gc', '-q', '--prune=now')
  if (uid !== undefined) execFileSync('chown', ['-R', `${uid}:${uid}`, repository])
  const walls = packWalls(copy, scratch, uid)
  onTestFinished(walls.close)
  return { copy, scratch, walls }
}

onLinux(
  '[WALL15] [SNAP3] packs of a snapshot are unpacked behind walls, as the sandbox’s user and without network',
  async () => {
    const { copy, scratch, walls } = makeCopy('a value: canary-0123456789')
    const secrets = [{ name: 'TOKEN', value: 'canary-0123456789' }]
    const hit = await searchSecret(copy, secrets, join(scratch, 'work'), never, walls.line)
    expect(hit).toMatchObject({ name: 'TOKEN', file: expect.stringContaining('git object') })
    const { file, args } = await walls.line(['--version'])
    expect(file).toBe('nsenter')
    const at = args.lastIndexOf('git')
    const looked = execFileSync(file, [
      ...args.slice(0, at),
      ...[
        'sh',
        '-c',
        'id -u; ls /sys/class/net 2>/dev/null; wc -l </proc/net/route; ls /root 2>&1; true',
      ],
    ])
    const [who, ...rest] = looked.toString().trim().split('\n')
    expect(Number(who)).toBe(uid ?? process.getuid?.())
    expect(rest[0]).toBe('1') // the heading of an empty table
    expect(rest.at(-1)).toMatch(/cannot|No such/)
  },
)

onLinux('[WALL15] a copy without a secret in its packs passes', async () => {
  const { copy, scratch, walls } = makeCopy('nothing to hide')
  const secrets = [{ name: 'TOKEN', value: 'canary-0123456789' }]
  expect(await searchSecret(copy, secrets, join(scratch, 'work'), never, walls.line)).toBeNull()
})
