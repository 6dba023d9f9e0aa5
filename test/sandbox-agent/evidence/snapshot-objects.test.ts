import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openlyHeld, runHeld } from '../../../sandbox-agent/enclosure/held.ts'
import type { Run } from '../../../sandbox-agent/enclosure/reader.ts'
import { StoreObjects } from '../../../sandbox-agent/evidence/snapshot-objects.ts'
import { StoreReading } from '../../../sandbox-agent/evidence/snapshot-store.ts'
import { edit, Store } from './store-kit.ts'

const openly: Run = (...run) => runHeld(openlyHeld(undefined), ...run)

/** A bare store, and trees in it that are written entry by entry. */
class Trees {
  readonly store = mkdtempSync(join(tmpdir(), 'gantry-trees-'))
  readonly objects: StoreObjects

  constructor(run: Run = openly, format = 'sha1') {
    execFileSync('git', ['init', '-q', '--bare', `--object-format=${format}`, this.store])
    this.objects = new StoreObjects({ run, environment: { PATH: process.env['PATH'] ?? '' } })
    onTestFinished(() => {
      this.objects.close()
      rmSync(this.store, { recursive: true, force: true })
    })
  }

  git(args: string[], input: string | Buffer = ''): string {
    return execFileSync('git', [`--git-dir=${this.store}`, ...args], { input })
      .toString()
      .trim()
  }

  blob(text: string | Buffer): string {
    return this.git(['hash-object', '-w', '--stdin'], text)
  }

  /** As bytes, so that names and orders that git would not write can be had. */
  tree(entries: readonly [mode: string, name: string | Buffer, hash: string][]): string {
    const bytes = entries.map(([mode, name, hash]) =>
      Buffer.concat([
        Buffer.from(`${mode} `),
        Buffer.from(name),
        Buffer.from([0]),
        Buffer.from(hash, 'hex'),
      ]),
    )
    const args = ['hash-object', '-w', '--stdin', '-t', 'tree', '--literally']
    return this.git(args, Buffer.concat(bytes))
  }

  reading(timeoutMs = 20_000): StoreReading {
    return new StoreReading(this.objects, timeoutMs)
  }
}

describe('the trees of a step', () => {
  test('[CHG1] differ in exactly the paths that git names, and their entries are those of git', async () => {
    const trees = new Trees()
    const [one, two] = [trees.blob('one\n'), trees.blob('two\n')]
    const sub = (hash: string) => trees.tree([['100644', 'deep.txt', hash]])
    const before = trees.tree([
      ['100644', 'a.txt', one],
      ['40000', 'becomes-file', sub(one)],
      ['40000', 'changed', sub(one)],
      ['40000', 'gone', sub(one)],
      ['100644', 'mode.sh', one],
      ['40000', 'same', sub(one)],
      ['100644', Buffer.from([0x74, 0xe4]), one],
      ['100644', 'was file', one],
    ])
    const after = trees.tree([
      ['100644', 'a.txt', two],
      ['100644', 'becomes-file', one],
      ['40000', 'changed', trees.tree([['40000', 'below', sub(two)]])],
      ['120000', 'link', one],
      ['100755', 'mode.sh', one],
      ['160000', 'module', before],
      ['40000', 'same', sub(one)],
      ['100644', Buffer.from([0x74, 0xe4]), two],
      ['40000', 'was file', sub(two)],
      ['100644', 'ü\nzwei', two],
    ])
    const named = execFileSync('git', [
      `--git-dir=${trees.store}`,
      ...['diff-tree', '-r', '-z', '--name-only', '--no-renames', before, after],
    ])
    const expected = named.toString('utf8').split('\0').slice(0, -1).toSorted()
    const changed = await trees.reading().changed(trees.store, before, after, 1000)
    expect(changed).toEqual(expected)
    expect(changed).toHaveLength(13)

    const paths = ['a.txt', 'changed/below/deep.txt', 'changed/deep.txt', 'was file', 'ü\nzwei']
    const entries = await trees.reading().entries(trees.store, after, [...paths, 'module', 'link'])
    expect(Object.fromEntries(entries ?? [])).toEqual({
      'a.txt': { mode: '100644', type: 'blob', hash: two, size: 4 },
      'changed/below/deep.txt': { mode: '100644', type: 'blob', hash: two, size: 4 },
      'was file': { mode: '040000', type: 'tree', hash: sub(two), size: null },
      'ü\nzwei': { mode: '100644', type: 'blob', hash: two, size: 4 },
      module: { mode: '160000', type: 'commit', hash: before, size: null },
      link: { mode: '120000', type: 'blob', hash: one, size: 4 },
    })
    // A name of other bytes that look alike once they are text is another name.
    expect((await trees.reading().entries(trees.store, after, ['t\u{fffd}']))?.size).toBe(0)
  })

  test('[CHG3] a folder that the store does not have is not taken for an empty one', async () => {
    const trees = new Trees()
    const one = trees.blob('one\n')
    const whole = trees.tree([['100644', 'a', one]])
    const holed = trees.tree([
      ['100644', 'a', one],
      ['40000', 'gone', 'a'.repeat(40)],
    ])
    const reading = trees.reading()
    expect(await reading.entries(trees.store, holed, ['gone/x'])).toBeNull()
    expect(await reading.changed(trees.store, whole, holed, 1000)).toBeNull()
    expect((await reading.entries(trees.store, holed, ['a']))?.get('a')?.size).toBe(4)
    expect(reading.timedOut).toBe(false)
  })

  test('[CHG3] a name that a folder has twice is nobody’s, and a blob is no folder', async () => {
    const trees = new Trees()
    const [one, two] = [trees.blob('one\n'), trees.blob('two\n')]
    const twice = trees.tree([
      ['100644', 'a', one],
      ['100644', 'a', two],
    ])
    expect(await trees.reading().entries(trees.store, twice, ['a'])).toBeNull()
    const lying = trees.tree([['40000', 'a', one]])
    expect(await trees.reading().entries(trees.store, lying, ['a/b'])).toBeNull()
  })

  test('[CHG3] folders that hold one another a billion times are compared as far as is told', async () => {
    const trees = new Trees()
    let folder = trees.tree([['100644', 'file', trees.blob('x\n')]])
    for (let depth = 0; depth < 30; depth += 1)
      folder = trees.tree([
        ['40000', 'l', folder],
        ['40000', 'r', folder],
      ])
    const empty = trees.tree([])
    const changed = await trees.reading().changed(trees.store, empty, folder, 1000)
    expect(changed).toHaveLength(1000)
    expect(new Set(changed).size).toBe(1000)
  })

  const hash = 'a'.repeat(40)
  const saying = (script: string) =>
    new Trees((_, __, options) => runHeld(openlyHeld(undefined), 'sh', ['-c', script], options))

  test.each<[string, string]>([
    ['no line at all', 'head -c 5000 /dev/zero; exec cat >/dev/null'],
    ['more bytes than a folder can have', `echo ${hash} tree 99999999999; exec cat >/dev/null`],
    ['an end before its answer', 'exit 0'],
    ['half of its answer', `printf '${hash} tree 100\\nhalf'; sleep 0.2`],
    ['an object of another name', `echo ${'b'.repeat(40)} tree 0; echo; exec cat >/dev/null`],
    ['a size that is none', `echo ${hash} tree -1; exec cat >/dev/null`],
    ['bytes that are not those of the name', `echo ${hash} tree 0; echo; exec cat >/dev/null`],
    ['a blob in its place', `echo ${hash} blob 0; echo; exec cat >/dev/null`],
  ])('[CHG3] a program that says %s is not believed, and not waited for', async (_, script) => {
    const trees = saying(script)
    const reading = trees.reading()
    expect(await reading.entries(trees.store, hash, ['a'])).toBeNull()
    expect(reading.timedOut).toBe(false)
  })

  test('[CHG3] a program that says nothing is waited for as long as the step has, and no longer', async () => {
    const trees = saying('exec cat >/dev/null')
    const reading = trees.reading(300)
    expect(await reading.entries(trees.store, hash, ['a'])).toBeNull()
    expect(reading.timedOut).toBe(true)
    // Nothing more is asked for this step.
    expect(await reading.changed(trees.store, hash, 'b'.repeat(40), 10)).toBeNull()
    expect(await reading.contents(trees.store, [])).toBeNull()
  })

  test('[CHG3] texts come by their hash; one that is missing, or is a folder, is named', async () => {
    const trees = new Trees()
    const [one, large] = [trees.blob('one\n'), trees.blob('x'.repeat(300_000))]
    const tree = trees.tree([['100644', 'a', one]])
    const found = await trees.reading().contents(trees.store, [one, hash, large, tree])
    expect([...(found ?? [])].map(([name, it]) => [name, String(it).slice(0, 20)])).toEqual([
      [one, 'one\n'],
      [hash, 'object-missing'],
      [large, 'x'.repeat(20)],
      [tree, 'object-unreadable'],
    ])
    expect(found?.get(large)).toHaveLength(300_000)
    expect(await trees.reading().storeWith([trees.store], [tree, one])).toBeNull()
    expect(await trees.reading().storeWith([trees.store], [tree])).toBe(trees.store)
  })

  test('[CHG3] a store whose objects have the longer hashes is read as well', async () => {
    const trees = new Trees(openly, 'sha256')
    const tree = trees.tree([['100644', 'a', trees.blob('one\n')]])
    expect(tree).toHaveLength(64)
    const entry = (await trees.reading().entries(trees.store, tree, ['a']))?.get('a')
    expect(entry).toMatchObject({ size: 4, mode: '100644' })
    const found = await trees.reading().contents(trees.store, [entry?.hash ?? ''])
    expect(found?.get(entry?.hash ?? '')?.toString()).toBe('one\n')
  })

  test('[CHG3] what is asked for after a program has died is asked of a new one', async () => {
    let starts = 0
    const trees = new Trees((program, args, options) => {
      starts += 1
      return starts === 1
        ? runHeld(openlyHeld(undefined), 'false', [], options)
        : openly(program, args, options)
    })
    const tree = trees.tree([['100644', 'a', trees.blob('one\n')]])
    expect(await trees.reading().storeWith([trees.store], [tree])).toBeNull()
    expect(await trees.reading().storeWith([trees.store], [tree])).toBe(trees.store)
    expect(starts).toBe(2)
  })

  test('[CHG3] walls that fell while something was asked are built again, and it is answered', async () => {
    const trees = new Trees(async (program, args, options) => {
      await runHeld(openlyHeld(undefined), 'true', [], options)
      return openly(program, args, options)
    })
    const tree = trees.tree([['100644', 'a', trees.blob('one\n')]])
    expect((await trees.reading().entries(trees.store, tree, ['a']))?.get('a')?.size).toBe(4)
  })
})

test('[CHG2] however many steps a collect reads, it starts three programs', async () => {
  const store = new Store().begin()
  store.write('src/a.txt', '0\n')
  for (let n = 1; n <= 10; n += 1) store.step([edit('src/a.txt', `${n - 1}`, `${n}`, `${n}\n`)])
  const started: string[] = []
  const ended: Promise<{ code: number | null }>[] = []
  const { bundle } = await store.collectBy((program, args, options) => {
    started.push(`${program === 'git' ? 'git' : 'node'} ${args.at(-1)?.slice(0, 13)}`)
    const ran = openly(program, args, options)
    ended.push(ran)
    return ran
  })
  expect(bundle.reads).toHaveLength(10)
  expect(bundle.files).toHaveLength(10)
  expect(started.filter((each) => each.startsWith('git')).toSorted()).toEqual([
    'git --batch',
    'git --batch-check',
  ])
  expect(started).toHaveLength(3)
  // They end when the collect does, by themselves.
  expect((await Promise.all(ended)).map(({ code }) => code)).toEqual([0, 0, 0])
})
