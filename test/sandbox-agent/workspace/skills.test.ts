import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { takeWorkspaceSkills } from '../../../sandbox-agent/workspace/skills.ts'
import type { Manifest } from '../../../src/contract/manifest.ts'
import { temporaryFolder } from '../support.ts'

function sandbox() {
  const root = temporaryFolder()
  const workspace = join(root, 'workspace')
  mkdirSync(workspace)
  const put = (path: string, content: string | Buffer) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), content)
  }
  const take = (...paths: string[]) => {
    const workspaceSkills = paths.map((path, at) => ({
      ...{ name: `s${at}`, path, file: `/config/skill/s${at}/SKILL.md` },
      ...{ head: `---\nname: "s${at}"\n---\n`, maxBytes: 100 },
    }))
    const manifest = { layout: { workspace }, workspaceSkills } as unknown as Manifest
    return takeWorkspaceSkills(manifest, join(root, 'skills.json'))
  }
  const found = (path: string) => take(path).reads[0]?.found
  return { root, workspace, put, take, found }
}

test('[SKILL18] a file is taken whole, and written under the front matter of the registry', () => {
  const { put, take } = sandbox()
  put('workspace/docs/a.md', '---\nname: forged\n---\nText é.\n')
  const { reads, files } = take('docs/a.md')
  expect(reads).toEqual([
    {
      ...{ name: 's0', path: 'docs/a.md', found: 'file' },
      ...{ sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
      content: '---\nname: forged\n---\nText é.\n',
    },
  ])
  expect(files).toMatchObject([
    {
      path: '/config/skill/s0/SKILL.md',
      keep: 'own',
      content: '---\nname: "s0"\n---\nText é.\n\n',
    },
  ])
})

test('[SKILL18] whatever is no text inside of the workspace has its reason, and no file', () => {
  const { root, workspace, put, found, take } = sandbox()
  put('outside/a.md', 'Secret.')
  put('workspace/a.md', 'Text.')
  put('workspace/large.md', 'x'.repeat(101))
  put('workspace/fits.md', 'x'.repeat(100))
  put('workspace/binary.md', Buffer.from([0xff, 0xfe, 0x00]))
  mkdirSync(join(workspace, 'folder.md'))
  execFileSync('mkfifo', [join(workspace, 'pipe.md')])
  symlinkSync(join(root, 'outside'), join(workspace, 'way'))
  symlinkSync(join(root, 'outside/a.md'), join(workspace, 'link.md'))
  symlinkSync('a.md', join(workspace, 'inner.md'))
  put('workspace/.env', 'A=b')
  put('workspace/.git/config', 'url')
  const wanted = {
    ...{ 'a.md': 'file', 'fits.md': 'file', 'none.md': 'missing', 'a.md/b.md': 'missing' },
    ...{ 'none/b.md': 'missing', 'large.md': 'oversized', 'binary.md': 'not_file' },
    ...{ 'folder.md': 'not_file', 'pipe.md': 'not_file', 'way/a.md': 'outside' },
    ...{ 'link.md': 'outside', 'inner.md': 'outside', '../outside/a.md': 'outside' },
    ...{ '/etc/hostname': 'outside', '.env': 'outside', '.git/config': 'outside' },
  }
  for (const [path, state] of Object.entries(wanted)) {
    const { found } = sandboxAgain(path)
    expect([path, found]).toEqual([path, state])
  }
  function sandboxAgain(path: string) {
    writeFileSync(join(root, 'skills.json'), '')
    const { reads, files } = take(path)
    expect(files).toHaveLength(reads[0]?.found === 'file' ? 1 : 0)
    expect(reads[0]?.found === 'file' || reads[0]?.content === undefined).toBe(true)
    return { found: reads[0]?.found }
  }
  expect(found('a.md')).toBe('file')
})

test('[SKILL18] what was taken first stays, also after a restart of the agent', () => {
  const { root, put, take } = sandbox()
  put('workspace/a.md', 'First.')
  expect(take('a.md', 'b.md').reads.map(({ found }) => found)).toEqual(['file', 'missing'])
  put('workspace/a.md', 'Second.')
  put('workspace/b.md', 'Late.')
  const { reads, files } = take('a.md', 'b.md')
  expect(reads.map(({ found }) => found)).toEqual(['file', 'missing'])
  expect(files.map(({ content }) => content)).toEqual(['---\nname: "s0"\n---\nFirst.\n'])
  expect(readFileSync(join(root, 'skills.json'), 'utf8')).toContain('First.')
})

test('[SKILL18] together they are at most a mebibyte, and without any nothing is written', () => {
  const { put, root } = sandbox()
  const names = Array.from({ length: 18 }, (_, at) => `${at}.md`)
  for (const name of names) put(`workspace/${name}`, 'x'.repeat(60 * 1024))
  const workspaceSkills = names.map((path) => ({
    ...{ name: path, path, file: `/c/${path}`, head: '', maxBytes: 64 * 1024 },
  }))
  const manifest = { layout: { workspace: join(root, 'workspace') }, workspaceSkills }
  const { reads } = takeWorkspaceSkills(manifest as unknown as Manifest, join(root, 'many.json'))
  expect(reads.map(({ found }) => found)).toEqual([
    ...Array.from({ length: 17 }, () => 'file'),
    'oversized',
  ])
  const none = { layout: { workspace: root } } as unknown as Manifest
  expect(takeWorkspaceSkills(none, join(root, 'none.json'))).toEqual({ reads: [], files: [] })
  expect(() => readFileSync(join(root, 'none.json'))).toThrow('ENOENT')
})

test('[SKILL18] a disk that takes nothing hinders nothing', () => {
  const { put, root } = sandbox()
  put('workspace/a.md', 'Text.')
  const manifest = {
    layout: { workspace: join(root, 'workspace') },
    workspaceSkills: [{ name: 'a', path: 'a.md', file: '/c', head: '', maxBytes: 100 }],
  } as unknown as Manifest
  expect(takeWorkspaceSkills(manifest, join(root, 'nowhere/skills.json')).files).toHaveLength(1)
})
