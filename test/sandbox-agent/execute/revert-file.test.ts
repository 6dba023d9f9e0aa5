import { createHash } from 'node:crypto'
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { revertFile } from '../../../sandbox-agent/execute/revert-file.ts'
import type { Site } from '../../../sandbox-agent/execute/run/site.ts'
import { Operation, SentOperation } from '../../../src/contract/operation.ts'
import { makeExecutor, makePlace, newAttempt, operationOf, planOf } from './execute-kit.ts'

const hash = (text: string) => createHash('sha256').update(text).digest('hex')
let root = ''
let site: Site
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'gantry-revert-'))
  const workspace = join(root, 'workspace')
  mkdirSync(workspace)
  site = { workspace, home: root, owner: undefined, path: '', marks: {} }
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
})
const at = (path: string) => join(site.workspace, path)

const revert = (path: string, after: string | null, before: string | null, executable = false) =>
  revertFile(
    site,
    Operation.parse({
      ...{ category: 'edit', operation: 'revert-file', targetPath: path },
      revert: {
        expect: after === null ? null : hash(after),
        restore: before === null ? null : hash(before),
      },
      ...(before !== null && { content: before }),
    }),
    executable,
  )

describe('takes back', () => {
  test('[CHG13] a modify, a create and a delete, and keeps the mode', () => {
    writeFileSync(at('a.sh'), 'after\n', { mode: 0o755 })
    writeFileSync(at('new.txt'), 'made\n')
    expect(revert('a.sh', 'after\n', 'before ü\n')).toMatchObject({ output: 'Restored' })
    expect(revert('new.txt', 'made\n', null)).toMatchObject({ output: 'Deleted' })
    expect(revert('gone/deep/d.txt', null, '')).toMatchObject({ output: 'Restored' })
    expect(revert('gone/run.sh', null, 'run\n', true)).toMatchObject({ output: 'Restored' })
    expect(statSync(at('gone/run.sh')).mode & 0o777).toBe(0o755)
    expect(statSync(at('gone/deep/d.txt')).mode & 0o777).toBe(0o644)
    expect(readFileSync(at('a.sh'), 'utf8')).toBe('before ü\n')
    expect(statSync(at('a.sh')).mode & 0o777).toBe(0o755)
    expect(existsSync(at('new.txt'))).toBe(false)
    expect(readFileSync(at('gone/deep/d.txt'), 'utf8')).toBe('')
    expect(readdirSync(site.workspace).toSorted((a, b) => a.localeCompare(b))).toEqual([
      'a.sh',
      'gone',
    ])
  })

  test('[CHG13] what is as it was before already counts as done', () => {
    writeFileSync(at('a.txt'), 'before\n')
    expect(revert('a.txt', 'after\n', 'before\n').error ?? null).toBeNull()
    expect(revert('never.txt', 'made\n', null).error ?? null).toBeNull()
    expect(revert('never/there.txt', 'made\n', null).error ?? null).toBeNull()
  })
})

describe('leaves alone', () => {
  test('[CHG13] a file that was edited, deleted, made again or replaced since', () => {
    writeFileSync(at('edited.txt'), 'after, and more\n')
    writeFileSync(at('again.txt'), 'somebody else’s\n')
    mkdirSync(at('folder.txt'))
    writeFileSync(join(root, 'outside.txt'), 'after\n')
    symlinkSync(join(root, 'outside.txt'), at('link.txt'))
    symlinkSync(root, at('out'))
    const said = (path: string, after: string | null) => revert(path, after, 'before\n').error
    expect(said('edited.txt', 'after\n')).toBe('Conflict: it was changed since')
    expect(said('deleted.txt', 'after\n')).toBe('Conflict: it was deleted since')
    expect(said('again.txt', null)).toBe('Conflict: there is a file again')
    expect(said('folder.txt', 'after\n')).toBe('Conflict: it is no file now')
    expect(said('link.txt', 'after\n')).toBe('Conflict: it is a symlink now')
    expect(said('out/outside.txt', 'after\n')).toBe(
      'Conflict: a folder on the way to it is none any more',
    )
    expect(readFileSync(join(root, 'outside.txt'), 'utf8')).toBe('after\n')
    expect(readFileSync(at('edited.txt'), 'utf8')).toBe('after, and more\n')
    expect(existsSync(at('deleted.txt'))).toBe(false)
  })

  test('[CHG13] a conflict makes no folder, and a file behind a replaced folder is not called gone', () => {
    expect(revert('gone/deep/a.txt', 'after\n', 'before\n').error).toBe(
      'Conflict: it was deleted since',
    )
    expect(existsSync(at('gone'))).toBe(false)
    mkdirSync(at('moved'))
    writeFileSync(at('moved/new.txt'), 'made\n')
    symlinkSync('moved', at('folder'))
    writeFileSync(at('file'), '')
    const why = 'Conflict: a folder on the way to it is none any more'
    expect(revert('folder/new.txt', 'made\n', null).error).toBe(why)
    expect(revert('file/new.txt', 'made\n', null).error).toBe(why)
    expect(revert('file/new.txt', null, 'before\n').error).toBe(why)
    expect(readFileSync(at('moved/new.txt'), 'utf8')).toBe('made\n')
  })

  test('[CHG13] the other names of a file that has several, and names in another case', () => {
    writeFileSync(at('a.txt'), 'after\n')
    linkSync(at('a.txt'), at('other.txt'))
    writeFileSync(at('A.TXT'), 'somebody else’s\n')
    expect(revert('a.txt', 'after\n', 'before\n')).toMatchObject({ output: 'Restored' })
    expect(readFileSync(at('other.txt'), 'utf8')).toBe('after\n')
    expect(readFileSync(at('A.TXT'), 'utf8')).toBe('somebody else’s\n')
    expect(revert('other.txt', 'after\n', null)).toMatchObject({ output: 'Deleted' })
    expect(readFileSync(at('a.txt'), 'utf8')).toBe('before\n')
  })

  test('[CHG13] what is outside the workspace or git’s own, and a text that is not the plan’s', () => {
    writeFileSync(join(root, 'outside.txt'), 'after\n')
    writeFileSync(at('a.txt'), 'after\n')
    expect(() => revert('../outside.txt', 'after\n', 'x')).toThrow('outside the workspace')
    expect(() => revert('.git/config', null, 'x')).toThrow('belongs to git')
    const other = Operation.parse({
      ...{ category: 'edit', operation: 'revert-file', targetPath: 'a.txt', content: 'other' },
      revert: { expect: hash('after\n'), restore: hash('before\n') },
    })
    expect(() => revertFile(site, other, false)).toThrow('not the one of the plan')
    expect(readFileSync(at('a.txt'), 'utf8')).toBe('after\n')
  })
})

test('[CHG13] an agent reads over what a later release says of a revert, and callers say nothing unknown', () => {
  const known = { expect: null, restore: hash('x') }
  const sent = {
    ...{
      category: 'edit',
      operation: 'revert-file',
      targetPath: 'a.txt',
      content: 'x',
      timeoutMs: 100,
    },
    revert: { ...known, later: true },
  }
  expect(SentOperation.parse(sent).revert).toEqual(known)
  expect(Operation.safeParse(sent).success).toBe(false)
})

test.each([true, undefined])(
  '[CHG13] the executor takes the mode from beside the operation (%s)',
  async (executable) => {
    const { site: place, root: folder } = makePlace(undefined)
    const { executor } = makeExecutor(place, join(folder, 'attempts'))
    const report = await executor.execute({
      attemptId: newAttempt(),
      plan: planOf('workspace'),
      operation: operationOf('revert-file', {
        ...{ targetPath: 'run.sh', content: 'run\n' },
        revert: { expect: null, restore: hash('run\n') },
      }),
      ...(executable && { executable }),
    })
    expect(report).toMatchObject({ status: 'succeeded', output: 'Restored' })
    const { mode } = statSync(join(place.workspace, 'run.sh'))
    expect(mode & 0o777).toBe(executable ? 0o755 : 0o644)
  },
)
