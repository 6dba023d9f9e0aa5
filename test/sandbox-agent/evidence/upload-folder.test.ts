import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { uploadFolder } from '../../../sandbox-agent/evidence/upload-folder.ts'
import { json, serve, temporaryFolder } from '../support.ts'
import { onLinux } from '../../support/needs.ts'

const sha = (text: string) => createHash('sha256').update(text).digest('hex')

async function setUp() {
  const root = temporaryFolder()
  const workspace = join(root, 'workspace')
  mkdirSync(join(workspace, 'evidence'), { recursive: true })
  const store = await serve((request, response) =>
    json(response, 200, { sha256: sha(request.body), size: request.body.length }),
  )
  const put = (path: string, content: string) => {
    mkdirSync(join(workspace, path, '..'), { recursive: true })
    writeFileSync(join(workspace, path), content)
  }
  const run = (change: object = {}, url = store.url) =>
    uploadFolder(
      workspace,
      {
        operationId: 'o',
        folder: 'evidence',
        maxFiles: 3,
        maxFileBytes: 100,
        maxTotalBytes: 150,
        ...change,
      },
      { url, token: () => 'jwt', firstBackoffMs: 1 },
    )
  return { root, workspace, put, run, uploads: store.received }
}

describe('collecting evidence', () => {
  it('uploads regular files in order of their paths and names them relative to the folder', async () => {
    const { put, run, uploads } = await setUp()
    put('evidence/b.txt', 'bee')
    put('evidence/a/shot.png', 'png')
    expect(await run()).toEqual([
      { path: 'a/shot.png', size: 3, sha256: sha('png'), contentType: 'image/png' },
      { path: 'b.txt', size: 3, sha256: sha('bee'), contentType: 'text/plain' },
    ])
    expect(uploads.map((each) => [each.method, each.headers.authorization, each.body])).toEqual([
      ['PUT', 'Bearer jwt', 'png'],
      ['PUT', 'Bearer jwt', 'bee'],
    ])
  })

  it('finds nothing in an empty or missing folder', async () => {
    const { run } = await setUp()
    expect(await run()).toEqual([])
    expect(await run({ folder: 'nowhere/deep' })).toEqual([])
  })

  it('names the limit that is passed', async () => {
    const { put, run } = await setUp()
    put('evidence/large', 'x'.repeat(101))
    await expect(run()).rejects.toThrow(
      'Cannot collect "evidence": "large" is larger than 100 bytes',
    )
    put('evidence/large', 'x'.repeat(80))
    put('evidence/other', 'x'.repeat(80))
    await expect(run()).rejects.toThrow('more than 150 bytes in all')
    for (const name of 'abc') put(`evidence/${name}`, 'x')
    await expect(run()).rejects.toThrow('more than 3 files')
  })

  it('follows no symlink: neither a file, nor a folder, nor the folder itself', async () => {
    const { root, workspace, put, run, uploads } = await setUp()
    writeFileSync(join(root, 'secret'), 'secret')
    mkdirSync(join(root, 'private'))
    writeFileSync(join(root, 'private/key'), 'key')
    put('evidence/real', 'real')
    symlinkSync(join(root, 'secret'), join(workspace, 'evidence/file'))
    symlinkSync(join(root, 'private'), join(workspace, 'evidence/folder'))
    symlinkSync(join(root, 'private'), join(workspace, 'linked'))
    expect((await run()).map((file) => file.path)).toEqual(['real'])
    await expect(run({ folder: 'linked' })).rejects.toThrow('a symlink leads out of the workspace')
    expect(uploads.map((each) => each.body)).toEqual(['real'])
  })

  it('does not hang on a pipe', async () => {
    const { workspace, put, run } = await setUp()
    execFileSync('mkfifo', [join(workspace, 'evidence/pipe')])
    put('evidence/real', 'real')
    expect((await run()).map((file) => file.path)).toEqual(['real'])
  })

  it.each(['..', '../x', '/etc', 'a/../../b'])('refuses the folder %s', async (folder) => {
    const { run } = await setUp()
    await expect(run({ folder })).rejects.toThrow('outside the workspace')
  })

  onLinux('leaves no folder open when it refuses', async () => {
    const { put, run } = await setUp()
    for (const name of ['a', 'b', 'c', 'd']) put(`evidence/inner/${name}`, name)
    const open = () => readdirSync('/proc/self/fd').length
    const before = open()
    for (let time = 0; time < 20; time += 1)
      await expect(run()).rejects.toThrow('more than 3 files')
    for (let time = 0; time < 20; time += 1)
      await expect(run({ maxFiles: 0 })).rejects.toThrow('too many entries')
    expect(open() - before).toBeLessThan(5)
  })

  it('tries an upload again when the store is away, and gives up on a refusal', async () => {
    const { put, run } = await setUp()
    put('evidence/a', 'a')
    const flaky = await serve((request, response, nth) =>
      nth < 3
        ? json(response, 503, {})
        : json(response, 200, { sha256: sha(request.body), size: 1 }),
    )
    expect(await run({}, flaky.url)).toHaveLength(1)
    const refusing = await serve((_request, response) => json(response, 403, {}))
    await expect(run({}, refusing.url)).rejects.toThrow('Cannot upload "a": 403')
    expect(refusing.received).toHaveLength(1)
  })
})
