import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { realPathsOf } from '../../../sandbox-agent/gate/real-paths.ts'
import { temporaryFolder } from '../support.ts'

function setUp() {
  const root = temporaryFolder()
  const workspace = join(root, 'workspace')
  mkdirSync(join(workspace, 'src'), { recursive: true })
  const link = (name: string, target: string) => symlinkSync(target, join(workspace, name))
  const real = (input: unknown) => realPathsOf(input, workspace, []).realPaths
  return { root, workspace, link, real }
}

describe('where paths really lead', () => {
  it('[GATE9] a link to what does not exist yet leads there, over several links and folders too', () => {
    const { root, workspace, link, real } = setUp()
    link('new', join(root, 'outside', 'file'))
    link('first', 'second')
    link('second', '../outside')
    link('folder', join(root, 'nowhere'))
    expect(real({ filePath: 'new' })).toEqual([join(root, 'outside', 'file')])
    expect(real({ filePath: join(workspace, 'first') })).toEqual([join(root, 'outside')])
    expect(real({ filePath: 'folder/a/b' })).toEqual([join(root, 'nowhere', 'a', 'b')])
  })

  it('[GATE9] links in a circle end, and plain names stay', () => {
    const { workspace, link, real } = setUp()
    link('a', 'b')
    link('b', 'a')
    expect(real({ filePath: 'a' })).toHaveLength(1)
    expect(real({ filePath: 'src/new.ts' })).toEqual([join(workspace, 'src', 'new.ts')])
  })

  it('[GATE9] a patch names its files as OpenCode reads them', () => {
    const { root, link, real } = setUp()
    writeFileSync(join(root, 'secret'), '')
    link('x', '../secret')
    const patchText = '*** Begin Patch\n*** Update File:x\n*** Move to:src/y\n*** End Patch'
    expect(real({ patchText })).toContain(join(root, 'secret'))
  })

  it('[GATE9] what is left out is said', () => {
    const { workspace } = setUp()
    const patch = (count: number) =>
      Array.from({ length: count }, (_, n) => `*** Add File: f${n}`).join('\n')
    const facts = (count: number) => realPathsOf({ patchText: patch(count) }, workspace, [])
    expect(facts(200)).toMatchObject({ shortened: false })
    expect(facts(201)).toMatchObject({ shortened: true })
    const long = { filePath: `${'d'.repeat(200)}/`.repeat(30) }
    expect(realPathsOf(long, workspace, [])).toEqual({ realPaths: [], shortened: true })
  })
})
