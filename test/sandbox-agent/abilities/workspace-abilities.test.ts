import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  findWorkspaceAbilities,
  readWorkspaceAbility,
} from '../../../sandbox-agent/abilities/workspace-abilities.ts'
import { readAbilityFolder } from '../../../src/core/registry/abilities/folder.ts'
import { sha256 } from '../../support/changes-kit.ts'
import { temporaryFolder } from '../support.ts'

const yaml = (name: string) => `name: ${name}\ndescription: d\nsteps:\n  - id: a\n    run: 'true'\n`

function setUp(files: Record<string, string | Buffer>) {
  const workspace = temporaryFolder()
  for (const [path, content] of Object.entries(files)) {
    const whole = join(workspace, '.opencode/abilities', path)
    mkdirSync(dirname(whole), { recursive: true })
    writeFileSync(whole, content)
  }
  return { workspace, found: () => findWorkspaceAbilities(workspace) }
}

describe('abilities in the workspace', () => {
  it('[ABX5] a folder with ability.yaml is one, and every other YAML file by itself, at any depth', () => {
    const { found } = setUp({
      'test.yaml': yaml('test'),
      'ability.yml': yaml('at-the-top'),
      'deploy/ability.yaml': yaml('deploy'),
      'deploy/scripts/run.sh': 'echo run',
      'deploy/values/staging.yaml': 'not: an ability',
      'deploy/production/ability.yaml': yaml('production'),
      'a/b/c/d/e/f/ability.yml': yaml('deep'),
      'domain/flat.yml': yaml('flat'),
      'domain/notes.md': 'notes',
    })
    const { found: all, problems } = found()
    expect(problems).toEqual([])
    expect(all.map(({ path, main }) => `${path} ${main}`)).toEqual([
      'ability.yml ability.yml',
      'test.yaml test.yaml',
      'a/b/c/d/e/f ability.yml',
      'deploy ability.yaml',
      'deploy/production ability.yaml',
      'domain/flat.yml flat.yml',
    ])
    expect(all.find(({ path }) => path === 'deploy')?.source).toBe(yaml('deploy'))
  })

  it('[ABX5] its hash is that of the same folder when it is stored, and covers every file', async () => {
    const files = { 'deploy/ability.yaml': yaml('deploy'), 'deploy/scripts/run.sh': 'echo ü' }
    const { workspace, found } = setUp({ ...files, 'deploy/inner/ability.yaml': yaml('inner') })
    const stored = await readAbilityFolder(
      {
        files: [
          { path: 'scripts/run.sh', content: 'echo ü' },
          { path: 'ability.yaml', content: yaml('deploy') },
        ],
      },
      { sha256: async (text) => sha256(String(text)) },
    )
    const read = readWorkspaceAbility(workspace, 'deploy')
    expect(read?.hash).toBe(stored.hash)
    expect(read?.files.map(({ path }) => path)).toEqual(['ability.yaml', 'scripts/run.sh'])
    expect(found().found[0]?.hash).toBe(stored.hash)
    writeFileSync(join(workspace, '.opencode/abilities/deploy/scripts/run.sh'), 'echo other')
    expect(found().found[0]?.hash).not.toBe(stored.hash)
    expect(readWorkspaceAbility(workspace, 'none')).toBeUndefined()
  })

  it('[ABX5] symlinks are not followed, wherever they are', () => {
    const outside = temporaryFolder()
    writeFileSync(join(outside, 'ability.yaml'), yaml('outside'))
    const { workspace, found } = setUp({ 'own/ability.yaml': yaml('own') })
    const below = join(workspace, '.opencode/abilities')
    symlinkSync(outside, join(below, 'linked'))
    symlinkSync(join(outside, 'ability.yaml'), join(below, 'file.yaml'))
    expect(found().found.map(({ path }) => path)).toEqual(['own'])
    symlinkSync('/etc/passwd', join(below, 'own/passwd'))
    expect(found()).toMatchObject({
      found: [],
      problems: [{ path: 'own', message: '"passwd" is no plain file' }],
    })
    const other = temporaryFolder()
    symlinkSync(join(workspace, '.opencode'), join(other, '.opencode'))
    expect(findWorkspaceAbilities(other)).toEqual({ found: [], problems: [] })
    expect(findWorkspaceAbilities(temporaryFolder())).toEqual({ found: [], problems: [] })
  })

  it.each<[string, Record<string, string | Buffer>, string]>([
    ['bytes', { 'bad/data': Buffer.from([255, 0, 1]) }, '"data" is no text'],
    ['a NUL', { 'bad/data': 'a\0b' }, '"data" is no text'],
    ['a large file', { 'bad/data': 'a'.repeat(600_000) }, '"data" has more than 524288 bytes'],
    [
      'a large definition',
      { 'bad/ability.yaml': '#'.repeat(300_000) },
      '"ability.yaml" has more than 262144 bytes',
    ],
    [
      'many files',
      Object.fromEntries(Array.from({ length: 257 }, (_, at) => [`bad/f${at}`, ''])),
      'It has more than 256 files',
    ],
    [
      'a large folder',
      Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`bad/f${at}`, 'a'.repeat(500_000)])),
      'It has more than 4194304 bytes',
    ],
    ['a deep one', { [`${'x/'.repeat(22)}ability.yaml`]: yaml('deep') }, 'It is too deep'],
  ])('[ABX5] %s is a problem of its own', (_, files, message) => {
    const { found } = setUp({
      'good.yaml': yaml('good'),
      'bad/ability.yaml': yaml('bad'),
      ...files,
    })
    const told = found()
    expect(told.found.map(({ path }) => path)).toContain('good.yaml')
    expect(told.problems.map((problem) => problem.message)).toEqual([message])
  })

  it('[ABX5] of very many the first are told, in one order and bounded time', () => {
    const many = Array.from({ length: 150 }, (_, at) => [`m${at}.yaml`, yaml(`m${at}`)])
    const { found } = setUp(Object.fromEntries(many))
    const told = found()
    expect(told.found).toHaveLength(100)
    expect(told.problems).toHaveLength(50)
    expect(told).toEqual(found())
    const flood = Array.from({ length: 2100 }, (_, at) => [`bad/f${at}`, ''])
    expect(setUp(Object.fromEntries(flood)).found().problems).toEqual([
      { path: 'bad', message: 'There are too many files' },
    ])
    const large = Array.from({ length: 9 }, (_, at) => [`l${at}.yaml`, '#'.repeat(200_000)])
    const { found: first, problems } = setUp(Object.fromEntries(large)).found()
    expect([first.length, problems.length]).toEqual([5, 4])
  })
})
