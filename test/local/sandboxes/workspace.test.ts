import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeSandboxWorkspace, type Repository } from '../../../local/sandboxes/workspace.ts'
import { serveGit } from '../../support/git-server.ts'

let folder: string
let names = 0
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'gantry-workspace-'))
  execFileSync('git', ['init', '--quiet', join(folder, 'source')])
  const commit = ['-c', 'user.name=t', '-c', 'user.email=t@t', 'commit', '--allow-empty', '-qmx']
  execFileSync('git', ['-C', join(folder, 'source'), ...commit])
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Whose fault it is, and what it says. */
async function failure(
  repository: Partial<Repository>,
  path?: string,
  localRepositories = [folder],
): Promise<unknown[]> {
  const options = {
    path: path ?? join(folder, `workspace${(names += 1)}`),
    repository: { url: join(folder, 'source'), ref: null, token: null, ...repository },
    environment: {},
    settingsDir: folder,
    localRepositories,
    timeoutMs: 20_000,
    signal: new AbortController().signal,
  }
  const error: unknown = await makeSandboxWorkspace(options).then(
    () => null,
    (reason: unknown) => reason,
  )
  const { fault, message } = (error ?? {}) as { fault?: string; message?: string }
  return [fault, message]
}
const user = (hint: RegExp) => ['user', expect.stringMatching(hint)]

test("[LOC28] a clone that works is nobody's fault", async () => {
  expect(await failure({})).toEqual([undefined, undefined])
})

test('[LOC28] a repository that is not there, a ref that is unknown: its user is told what to check', async () => {
  expect(await failure({ url: join(folder, 'none') })).toEqual(user(/Check the repository URL/))
  expect(await failure({ url: folder })).toEqual(user(/Check the repository URL/))
  for (const ref of ['no-such-branch', 'f'.repeat(40)])
    expect(await failure({ ref })).toEqual(user(/Check the ref/))
  expect(await failure({ ref: '-x' })).toEqual(user(/Cannot use ref/))
  expect(await failure({ url: 'git://example.test/x' })).toEqual(user(/Cannot clone over/))
})

test('[LOC28] over HTTP: no token, a wrong one, and what is not there', async () => {
  const server = await serveGit('x-access-token', 'right')
  expect(await failure({ url: server.url })).toEqual(user(/its token/))
  expect(await failure({ url: server.url, token: 'wrong' })).toEqual(user(/its token/))
  const missing = `${server.url}/../elsewhere`
  expect(await failure({ url: missing, token: 'right' })).toEqual(user(/Check the repository URL/))
  expect(await failure({ url: server.url, token: 'right' })).toEqual([undefined, undefined])
})

test('[LOC28] a host that cannot be found counts as a typo, and the other cause is named', async () => {
  const [fault, message] = await failure({ url: 'https://githb.invalid/a/b' })
  expect([fault, message]).toEqual(
    user(/Check the spelling of the repository's host\. If it is right/),
  )
})

test("[LOC28] a host that does not answer is neither the user's nor the provider's fault", async () => {
  const server = await serveGit('x', 'y', 'http://127.0.0.1:1/gone')
  expect(await failure({ url: server.url })).toEqual(['repository', expect.any(String)])
  expect(await failure({ url: 'http://127.0.0.1:1/x' })).toEqual(['repository', expect.any(String)])
})

test("[LOC28] what goes wrong on the machine itself is the provider's", async () => {
  const inFile = join(folder, 'source', '.git', 'HEAD', 'workspace')
  const [fault, message] = await failure({}, inFile)
  expect([fault, message]).toEqual([undefined, expect.stringContaining('could not create')])
})

test("[LOC28] a git server whose disk is full is not the provider's fault", async () => {
  const line = (text: string) => (text.length + 4).toString(16).padStart(4, '0') + text
  const type = { 'content-type': 'application/x-git-upload-pack-advertisement' }
  const words = line('# service=git-upload-pack\n') + '0000' + line('ERR No space left on device')
  const server = createServer((_, response) => response.writeHead(200, type).end(words))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const [fault, message] = await failure({ url: `http://127.0.0.1:${port}/x` })
  server.close()
  expect([fault, message]).toEqual(['repository', expect.stringContaining('No space left')])
})

test('[LOC29] a path or a file URL is cloned only from a listed folder, by where its links lead', async () => {
  const source = join(folder, 'source')
  const listed = mkdtempSync(join(folder, 'listed-'))
  symlinkSync(source, join(listed, 'link'))
  const refused = user(/GANTRY_LOCAL_REPOSITORIES/)
  const unlisted = [source, `file://${source}`, join(listed, 'link'), `file://${listed}/li%6ek`]
  for (const url of unlisted) expect(await failure({ url }, undefined, [listed])).toEqual(refused)
  expect(await failure({ url: source }, undefined, [])).toEqual(refused)
  for (const url of [source, `file://${source}`, join(listed, 'link')])
    expect(await failure({ url }, undefined, [`${folder}/`])).toEqual([undefined, undefined])
  // As on a machine whose temporary folder is itself a link.
  expect(await failure({ url: source }, undefined, [join(listed, 'link')])).toEqual([
    undefined,
    undefined,
  ])
})

test('[LOC29] ssh is spoken only to a listed address, and only then with an ssh agent', async () => {
  const url = 'ssh://git@127.0.0.1:1/acme/app'
  expect(await failure({ url }, undefined, ['ssh://git@127.0.0.1:1/other'])).toEqual(
    user(/GANTRY_LOCAL_REPOSITORIES/),
  )
  const [, message] = await failure({ url }, undefined, ['ssh://git@127.0.0.1:1/acme/'])
  expect(message).not.toContain('GANTRY_LOCAL_REPOSITORIES')
})

test('[LOC29] credentials in the home of whoever runs the host open nothing', async () => {
  const server = await serveGit('name', 'the-secret-of-the-host')
  const home = mkdtempSync(join(folder, 'home-'))
  const machine = `machine 127.0.0.1 login name password the-secret-of-the-host\n`
  writeFileSync(join(home, '.netrc'), machine, { mode: 0o600 })
  const before = process.env['HOME']
  process.env['HOME'] = home
  try {
    expect((await failure({ url: server.url }))[1]).toMatch(/token|could not read/i)
  } finally {
    process.env['HOME'] = before
  }
})
