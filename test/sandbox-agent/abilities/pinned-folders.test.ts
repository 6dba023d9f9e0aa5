import {
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { withPinnedFolder, PinnedFolders } from '../../../sandbox-agent/abilities/pinned-folders.ts'
import { type AbilityFile, folderHashText } from '../../../src/contract/ability-folder.ts'
import { sha256 } from '../../support/changes-kit.ts'
import { unless } from '../../support/needs.ts'
import {
  makeExecutor,
  makePlace,
  newAttempt,
  operationOf,
  planOf,
  put,
  sandboxUser,
} from '../execute/execute-kit.ts'
import { temporaryFolder } from '../support.ts'

const hashOf = (files: AbilityFile[]) =>
  sha256(folderHashText(files.map(({ path, content }) => ({ path, sha256: sha256(content) }))))

const files: AbilityFile[] = [
  { path: 'ability.yaml', content: 'description: d\n' },
  { path: 'scripts/hello.sh', content: '#!/bin/sh\necho "hello $1 from $ABILITY_DIR"\n' },
]
const hash = hashOf(files)

function setUp(given = files) {
  const root = join(temporaryFolder(), 'abilities')
  const asked: string[] = []
  const folders = new PinnedFolders({
    root: () => root,
    fetch: async (of) => {
      asked.push(of)
      return { files: given }
    },
  })
  return { root, asked, folders }
}

describe('the folder of a pinned ability', () => {
  it('[ABX6] is fetched once, and again if anything of it is not as it was pinned', async () => {
    const { asked, folders } = setUp()
    const [path] = await Promise.all([folders.ensure(hash), folders.ensure(hash)])
    expect(asked).toEqual([hash])
    expect(path.endsWith(`/abilities/${hash.slice(0, 32)}`)).toBe(true)
    expect(readFileSync(join(path, 'scripts/hello.sh'), 'utf8')).toContain('hello')
    expect(statSync(join(path, 'scripts/hello.sh')).mode & 0o777).toBe(0o555)
    const changes = [
      () => rmSync(join(path, 'ability.yaml')),
      () => writeFileSync(join(path, 'more'), 'more'),
      () => {
        rmSync(join(path, 'scripts/hello.sh'))
        writeFileSync(join(path, 'scripts/hello.sh'), 'echo other')
      },
      () => symlinkSync('/etc/passwd', join(path, 'link')),
      () => rmSync(path, { recursive: true }),
      () => {
        // The same files, where somebody else can change them.
        renameSync(path, `${path}.moved`)
        symlinkSync(`${path}.moved`, path)
      },
    ]
    for (const [at, change] of changes.entries()) {
      change()
      expect(await folders.ensure(hash)).toBe(path)
      expect(asked).toHaveLength(at + 2)
      expect(readFileSync(join(path, 'scripts/hello.sh'), 'utf8')).toBe(files[1]?.content)
      await folders.ensure(hash)
      expect(asked).toHaveLength(at + 2)
    }
  })

  it('[ABX6] other files than those of the hash are refused, and leave nothing', async () => {
    const { root, folders } = setUp([{ path: 'ability.yaml', content: 'other' }])
    await expect(folders.ensure(hash)).rejects.toThrow('came with other files')
    expect(() => statSync(root)).toThrow('ENOENT')
  })

  it('[ABX6] does not pile up', async () => {
    const { root, folders } = setUp()
    mkdirSync(root, { recursive: true })
    for (let at = 0; at < 30; at += 1) mkdirSync(join(root, `old${at}`))
    const path = await folders.ensure(hash)
    expect(() => statSync(join(root, 'old0'))).toThrow('ENOENT')
    expect(statSync(path).isDirectory()).toBe(true)
  })
})

function runner() {
  const { root, site } = makePlace(sandboxUser)
  const folders = new PinnedFolders({
    root: () => join(root, 'config/abilities'),
    fetch: async () => ({ files }),
  })
  const { executor } = makeExecutor(site, join(root, 'attempts'), { abilityFolder: folders.ensure })
  const run = (command: string, fields: object = {}) =>
    executor.execute({
      attemptId: newAttempt(),
      operation: operationOf('run', { command, ...fields }),
      plan: planOf('process-sandbox'),
    })
  return { root, site, executor, run }
}

describe('a script of an ability', () => {
  it('[ABX6] runs what is pinned, with its variables, and tells both streams and its exit code', async () => {
    const { run, root } = runner()
    const report = await run(
      '"$ABILITY_DIR"/scripts/hello.sh you; echo "$ABILITY_INPUTS_JSON" >&2; exit 3',
      {
        ability: hash,
        streams: 'apart',
        environment: { ABILITY_INPUTS_JSON: '{"a":"it\'s"}', ABILITY_DIR: '/elsewhere' },
      },
    )
    const folder = join(root, 'config/abilities', hash.slice(0, 32))
    expect(report).toMatchObject({
      output: `hello you from ${folder}\n`,
      stderr: '{"a":"it\'s"}\n',
      exitCode: 3,
    })
    expect(report).not.toHaveProperty('found')
  })

  it('[ABL40] runs from the folder that is here, if its command was made for another sandbox', async () => {
    const { run, root } = runner()
    const told = `/gone/abilities/${hash.slice(0, 32)}`
    const environment = { ABILITY_DIR: told }
    const report = await run(`sh ${told}/scripts/hello.sh you`, { ability: hash, environment })
    const folder = join(root, 'config/abilities', hash.slice(0, 32))
    expect(report).toMatchObject({ output: `hello you from ${folder}\n`, exitCode: 0 })
  })

  it('[ABX6] cannot write into its folder', async (context) => {
    const { run, executor } = runner()
    unless((await executor.enforces()).includes('network'), context, 'namespaces')
    const report = await run(
      'cd "$ABILITY_DIR" && { echo x > new; rm -f ability.yaml; chmod 777 . ; echo x >> scripts/hello.sh; } ; cat ability.yaml; ls',
      { ability: hash, streams: 'apart' },
    )
    expect(report.output).toBe('description: d\nability.yaml\nscripts\n')
  })

  it('[ABX6] starts in its cwd, from where it is looked for what it should leave', async () => {
    const { run, site } = runner()
    put(site, 'packages/api/x', '')
    const inApi = { cwd: './packages/api', looksFor: './coverage/' }
    expect(await run('pwd; mkdir coverage', inApi)).toMatchObject({
      output: `${join(site.workspace, 'packages/api')}\n`,
      found: true,
    })
    expect(await run('true', { ...inApi, looksFor: "it's not there" })).toMatchObject({
      found: false,
    })
    // It cannot say by itself that it is there.
    expect(await run('echo found >&5; exit 0', { looksFor: 'none' })).toMatchObject({
      found: false,
    })
    expect(await run('pwd', { cwd: '../home' })).toMatchObject({
      error: 'Cannot run in "../home": it is outside the workspace',
    })
  })

  it('[ABX6] standard error stays apart only where it is asked for', async () => {
    const { run } = runner()
    const mixed = await run('echo out; echo err >&2')
    expect(mixed.output).toBe('out\nerr\n')
    expect(mixed).not.toHaveProperty('stderr')
  })
})

it.each([
  [
    'sh /one/abilities/ab/x.sh && /one/abilities/ab/y',
    'sh /two/abilities/ab/x.sh && /two/abilities/ab/y',
  ],
  ['sh /one/abilities/abc/x.sh', 'sh /one/abilities/abc/x.sh'],
  ['echo 1', 'echo 1'],
])('[ABL40] a command for another sandbox names the folder of this one: %s', (command, moved) => {
  expect(withPinnedFolder(command, '/one/abilities/ab', '/two/abilities/ab')).toBe(moved)
  expect(withPinnedFolder(command, '/one/abilities/ab', '/one/abilities/ab')).toBe(command)
  expect(withPinnedFolder(command, '/one/abilities/ab', '/two; rm/ab')).toBe(command)
  expect(withPinnedFolder(command, undefined, '/two/abilities/ab')).toBe(command)
})
