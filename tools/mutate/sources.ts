import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const productFolders = ['src', 'sandbox-agent', 'durable-objects', 'local']

/** All of a folder, however deep, or the file itself. Paths are relative to the root. */
export function filesUnder(root: string, path: string, suffix = '.ts'): string[] {
  const full = resolve(root, path)
  if (!existsSync(full)) throw new Error(`Cannot find "${path}"`)
  if (statSync(full).isFile()) return [relative(root, full)]
  return readdirSync(full, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(suffix))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .sort()
}

/** What differs from `base`, also what is not committed. */
export function changedFiles(root: string, base: string): string[] {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\n').filter(Boolean)
  const names = [
    ...git('diff', '--name-only', '--diff-filter=d', `${base}...`),
    ...git('diff', '--name-only', '--diff-filter=d', 'HEAD'),
    ...git('ls-files', '--others', '--exclude-standard'),
  ]
  return [...new Set(names)].filter(
    (name) =>
      name.endsWith('.ts') && productFolders.some((folder) => name.startsWith(`${folder}/`)),
  )
}

/** The tests of the mirrored folder, and those that import one of the files. */
export function testsFor(root: string, files: readonly string[]): string[] {
  const folders = new Set(
    files.map((file) => join('test', dirname(file).replace(/^src(\/|$)/, ''))),
  )
  const own = filesUnder(root, 'test', '.test.ts').filter((test) =>
    /^test\/(contract|core|adapters|hosts|http|sandbox-agent|local)\//.test(test),
  )
  // Those that start servers cost more than they show.
  const isQuick = (test: string) => /^test\/(contract|core|http|sandbox-agent)\//.test(test)
  const isMirrored = (test: string) => [...folders].some((folder) => test.startsWith(`${folder}/`))
  const imports = (test: string) => {
    const text = readFileSync(join(root, test), 'utf8')
    return [...text.matchAll(/from '(\.[^']+)'/g)].map(([, path]) =>
      relative(root, resolve(root, dirname(test), path ?? '')),
    )
  }
  return own.filter(
    (test) =>
      isMirrored(test) || (isQuick(test) && imports(test).some((path) => files.includes(path))),
  )
}

/** Whether the product declares a function of that name that is not async, and calls it at one place alone. */
export function onlyCalls(root: string): (name: string) => boolean {
  const declared = new Set<string>()
  const calls = new Map<string, number>()
  for (const file of productFolders
    .filter((folder) => existsSync(join(root, folder)))
    .flatMap((folder) => filesUnder(root, folder))) {
    const text = readFileSync(join(root, file), 'utf8')
    const pattern = /(async )?function (\w+)|const (\w+) = (?:async )?\(|(?<![.\w])(\w+)\(/g
    for (const [, isAsync, named, constant, called] of text.matchAll(pattern)) {
      const name = named ?? constant
      if (name !== undefined && isAsync === undefined) declared.add(name)
      if (called !== undefined) calls.set(called, (calls.get(called) ?? 0) + 1)
    }
  }
  return (name) => declared.has(name) && calls.get(name) === 1
}
