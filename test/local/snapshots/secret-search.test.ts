import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  cleanGitCredentials,
  cleanRegistryCredentials,
} from '../../../local/snapshots/credential-text.ts'
import { searchSecret } from '../../../local/snapshots/secret-search.ts'
import { tempDir } from '../support.ts'

const canary = { name: 'API_TOKEN', value: 'canary+/4711 "secret"' }
const base64 = (text: string) => Buffer.from(text).toString('base64')
const never = new AbortController().signal

function tree(): { folder: string; write: (path: string, content: string | Buffer) => void } {
  const folder = tempDir()
  for (const name of ['workspace', 'home', 'scratch']) mkdirSync(join(folder, name))
  return { folder, write: (path, content) => writeFileSync(join(folder, path), content) }
}
const search = (folder: string, signal = never) =>
  searchSecret(
    folder,
    [{ name: 'OTHER', value: 'not there at all' }, canary],
    join(folder, 'scratch'),
    signal,
    async (args) => ({ file: 'git', args: [...args], owner: undefined }),
  )

test.each<[string, string, string | Buffer]>([
  ['as it is', 'x', `a ${canary.value} b`],
  ['JSON', 'x', JSON.stringify({ key: canary.value })],
  ['percent-encoded', 'x', `?k=${encodeURIComponent(canary.value)}&x=1`],
  ['base64url', 'x', Buffer.from(`u:${canary.value}`).toString('base64url')],
  [
    'base64 broken into lines',
    'x',
    base64(`${'u'.repeat(70)}${canary.value}tail`).replaceAll(/.{76}/g, '$&\r\n'),
  ],
  [
    'over the border of two pieces, among other bytes',
    'x',
    Buffer.concat([
      Buffer.alloc(1024 * 1024 - 7, 0xff),
      Buffer.from(canary.value),
      Buffer.alloc(9),
    ]),
  ],
  ['in a name', `x-${encodeURIComponent(canary.value)}`, ''],
])('[SNAP3] a value is found %s', async (_, name, content) => {
  const { folder, write } = tree()
  write(`workspace/${name}`, content)
  expect(await search(folder)).toEqual({ name: 'API_TOKEN', file: name })
})

test('[SNAP3] a value is found in a file that only has the name of a git object', async () => {
  const { folder, write } = tree()
  mkdirSync(join(folder, 'workspace/objects/ab'), { recursive: true })
  const path = `objects/ab/${'0'.repeat(38)}`
  write(`workspace/${path}`, canary.value)
  expect(await search(folder)).toEqual({ name: 'API_TOKEN', file: path })
})

test('[SNAP3] a value is found as the target of a link, which is not followed', async () => {
  const { folder, write } = tree()
  write('home/x', '')
  symlinkSync('/etc/passwd', join(folder, 'home/a'))
  expect(await search(folder)).toBeNull()
  symlinkSync(canary.value, join(folder, 'home/b'))
  expect(await search(folder)).toEqual({ name: 'API_TOKEN', file: '~/b' })
})

test.each(['sha1', 'sha256'])(
  '[SNAP3] a value is found in objects and packs of a %s repository',
  async (format) => {
    const { folder, write } = tree()
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
        cwd: join(folder, 'workspace'),
      })
    git('init', '-q', '-b', 'main', `--object-format=${format}`)
    write('workspace/a', 'x'.repeat(100_000))
    git('add', '-A')
    git('commit', '-qm', 'Clean')
    git('gc', '-q')
    expect(await search(folder)).toBeNull()
    git('commit', '-qm', `Message with ${canary.value}`, '--allow-empty')
    expect(await search(folder)).toMatchObject({ name: 'API_TOKEN' })
    // git's own notes of the message, so that only the objects hold it
    execFileSync('rm', ['-r', join(folder, 'workspace/.git/logs')])
    execFileSync('rm', ['-f', join(folder, 'workspace/.git/COMMIT_EDITMSG')])
    expect(await search(folder)).toMatchObject({
      file: expect.stringMatching(/^\.git\/objects\/..\//),
    })
    git('gc', '-q')
    expect(await search(folder)).toMatchObject({ file: expect.stringContaining('(git object ') })
  },
)

test('[SNAP3] a repository whose settings would run a program or fetch is searched without them', async () => {
  const { folder } = tree()
  const workspace = join(folder, 'workspace')
  execFileSync('git', ['init', '-q', workspace])
  execFileSync(
    'git',
    ['-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'x', '--allow-empty'],
    {
      cwd: workspace,
    },
  )
  execFileSync('git', ['gc', '-q'], { cwd: workspace })
  writeFileSync(join(workspace, '.git/config'), 'this is not a configuration\n')
  mkdirSync(join(workspace, '.git/objects/info'), { recursive: true })
  writeFileSync(join(workspace, '.git/objects/info/alternates'), '/nowhere/objects\n')
  expect(await search(folder)).toBeNull()
})

test('[SNAP7] the search ends when it is told', async () => {
  const { folder, write } = tree()
  write('workspace/x', 'y')
  await expect(search(folder, AbortSignal.abort(new Error('late')))).rejects.toThrow('late')
})

test('[SNAP4] credentials are cut out of settings; the rest stays as it is', () => {
  const config = [
    '[core]\n\tbare = false',
    '[remote "origin"]\n\turl = https://u:p@host/x\n\tfetch = +refs/*:refs/*',
    '[credential "https://host"]\n\thelper = "!f() { \\\n echo password=x; }; f"\n\tusername = me',
    '[http]\n\textraheader = AUTHORIZATION: \\\n basic eDp5\n\tproxy = http://proxy',
    '[url "https://token@host/"]\n\tinsteadOf = git@host:',
  ].join('\n')
  expect(cleanGitCredentials(config)).toBe(
    [
      '[core]\n\tbare = false',
      '[remote "origin"]\n\turl = https://host/x\n\tfetch = +refs/*:refs/*',
      '[http]\n\tproxy = http://proxy',
      '[url "https://host/"]\n\tinsteadOf = git@host:',
    ].join('\n'),
  )
  const npmrc =
    'registry=https://me:pw@npm.test/\n_auth = eDp5\nalways-auth=true\n//a/:_authToken="${T}"\n'
  expect(cleanRegistryCredentials(npmrc)).toBe(
    'registry=https://npm.test/\nalways-auth=true\n//a/:_authToken="${T}"\n',
  )
  expect(cleanRegistryCredentials('npmAuthToken: "abc"\nnodeLinker: pnp')).toBe('nodeLinker: pnp')
})
