import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, test } from 'vitest'
import { findMasks, untrackedMasks } from '../../../sandbox-agent/enclosure/masks.ts'
import { isRoot } from '../../support/needs.ts'
import { openReader, temporaryFolder } from '../support.ts'
import { kinds, makePlace, start, uid } from './place.ts'

function put(root: string, files: Record<string, string>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), content)
  }
}

const secrets = {
  '.env': 'SECRET=one\n',
  'app/.env.local': 'SECRET=two\n',
  'app/deep/server.key': 'SECRET three\n',
  '.ssh/id_rsa': 'SECRET four\n',
}
const harmless = { '.env.example': 'SECRET=\n', 'a.txt': 'text\n', 'node_modules/x/.env': 'x\n' }

describe('[WALL18] secret files of the workspace', () => {
  it('are found by their names, without following links', () => {
    const root = temporaryFolder()
    put(root, { ...secrets, ...harmless })
    const elsewhere = temporaryFolder()
    put(elsewhere, secrets)
    symlinkSync(elsewhere, join(root, 'link'))
    symlinkSync(join(elsewhere, '.env'), join(root, '.env.link'))
    const found = findMasks(root).map(({ path, isFolder }) => [path.slice(root.length), isFolder])
    expect(found.toSorted((a, b) => String(a).localeCompare(String(b)))).toEqual([
      ['/.env', false],
      ['/.ssh', true],
      ['/app/.env.local', false],
      ['/app/deep/server.key', false],
    ])
  })

  it('are left alone where git tracks them: the repository has them anyway', async () => {
    const root = temporaryFolder()
    execFileSync('git', ['init', '-q', root])
    put(root, secrets)
    execFileSync('git', ['-C', root, 'add', '--', 'app/.env.local', '.ssh'])
    const left = await untrackedMasks(findMasks(root), root, openReader().run)
    expect(left.map(({ path }) => path.slice(root.length)).toSorted()).toEqual([
      '/.env',
      '/app/deep/server.key',
    ])
    rmSync(join(root, '.git'), { recursive: true })
    expect(await untrackedMasks(findMasks(root), root, openReader().run)).toHaveLength(4)
  })
})

test.each(kinds)(
  '[WALL18] in an enclosure made by %s no search shows them, until they are declared',
  async (kind) => {
    const place = makePlace(kind)
    onTestFinished(place.remove)
    const workspace = join(place.box, 'workspace')
    put(workspace, { ...secrets, ...harmless })
    if (isRoot) execFileSync('chown', ['-R', `${uid}:${uid}`, workspace])
    const script = `exec 2>&1
grep -r SECRET . ; tar cf - . | grep -a -c 'SECRET=one'; cat .env app/.env.local; ls -A .ssh | wc -l
unshare -Urm sh -c 'umount .env; umount .ssh; cat .env .ssh/id_rsa'
rm -f .env; mv .env moved; git init -q; git add -A && git ls-files | grep -c env
echo 'SECRET=later' >.env.later; cat .env.later; rm -rf .git
echo waiting
while ! grep -q declared .env; do sleep 0.1; done; cat .env`
    const child = start(kind, { ...place.order, script, allowed: [] })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    // As the agent writes a file that the session has declared meanwhile.
    const written = join(workspace, '.gantry-new')
    await expect
      .poll(() => readWhole(join(place.box, 'workspace', '.env.later')), wait)
      .toContain('later')
    writeFileSync(written, 'declared\n')
    if (isRoot) execFileSync('chown', [`${uid}:${uid}`, written])
    renameSync(written, join(workspace, '.env'))
    await new Promise((resolve) => child.once('close', resolve))
    const said = (JSON.parse(output) as { output: string }).output
    expect(said.match(/SECRET.*/g)).toEqual(['SECRET=', 'SECRET=later'])
    expect(said).toMatch(/^0\n0\n/m)
    expect(said).toContain('waiting\ndeclared\n')
  },
  30_000,
)

const wait = { timeout: 20_000 }
function readWhole(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
