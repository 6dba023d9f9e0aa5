import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { root } from '../local/binaries.ts'

const folders = [
  'src',
  'durable-objects',
  'sandbox-agent',
  'local',
  'build',
  'bench',
  'conformance',
  'test',
  'tools',
]
const files = folders
  .filter((folder) => existsSync(join(root, folder)))
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
      .filter((entry) => !entry.parentPath.includes('node_modules'))
      .map((entry) => relative(root, join(entry.parentPath, entry.name))),
  )
const sources = files.filter((file) => !file.startsWith('test/'))
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')

/** Static imports, re-exports and `import()`; types too, since a type is a dependency as well. */
function importsOf(file: string): string[] {
  const pattern =
    /(?:^|\n)\s*(?:import|export)\s(?:[^'"`;]*?\sfrom\s)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/g
  return [...textOf(file).matchAll(pattern)].map(([, fixed, dynamic]) => {
    const name = fixed ?? dynamic ?? ''
    return name.startsWith('.') ? relative(root, resolve(root, dirname(file), name)) : name
  })
}

const layers = {
  contract: /^src\/contract\//,
  core: /^src\/core\//,
  config: /^src\/(config|variables|variable-forms)\.ts$/,
  adapters: /^src\/adapters\//,
  http: /^src\/http\//,
  client: /^src\/client\//,
  agent: /^sandbox-agent\//,
  host: /^(durable-objects\/|src\/(worker|deno|parts)\.ts$|src\/hosts\/)/,
  local: /^(local|build)\//,
  conformance: /^conformance\//,
} as const
const isPackage = (name: string) =>
  !/^(src|durable-objects|sandbox-agent|local|build|bench|conformance|test|tools)\//.test(name)

type Allowed = (name: string) => boolean
const within =
  (...patterns: RegExp[]): Allowed =>
  (name) =>
    patterns.some((pattern) => pattern.test(name))

const rules: { files: RegExp; may: string; allowed: Allowed }[] = [
  { files: layers.contract, may: 'zod and itself', allowed: within(/^zod$/, layers.contract) },
  {
    files: layers.core,
    may: 'zod, pure libraries, contract and itself',
    allowed: within(
      /^(zod|yaml|unbash|@bufbuild\/re2|@noble\/hashes\/.*)$/,
      layers.contract,
      layers.core,
    ),
  },
  {
    files: layers.adapters,
    may: 'packages, contract, core and itself',
    allowed: (name) =>
      isPackage(name) || within(layers.contract, layers.core, layers.adapters)(name),
  },
  {
    files: layers.http,
    may: 'packages, contract, core, config, adapters and itself',
    allowed: (name) =>
      isPackage(name) ||
      within(layers.contract, layers.core, layers.config, layers.adapters, layers.http)(name),
  },
  {
    files: layers.client,
    may: 'zod, contract and itself',
    allowed: within(/^zod$/, layers.contract, layers.client),
  },
  {
    files: /^src\/http\/kit\//,
    may: 'no routes and not the app',
    allowed: (name) => !/^src\/http\/(routes\/|app\.ts)/.test(name),
  },
  {
    files: /^src\/http\/routes\/(?!all\.ts$)/,
    may: 'neither each other nor the app',
    allowed: (name) => !/^src\/http\/(routes\/|app\.ts)/.test(name),
  },
  {
    files: layers.config,
    may: 'packages, contract, core, adapters and itself',
    allowed: (name) =>
      isPackage(name) || within(layers.contract, layers.core, layers.adapters, layers.config)(name),
  },
  {
    files: layers.host,
    may: 'packages and anything of src',
    allowed: (name) => isPackage(name) || within(/^src\//, layers.host)(name),
  },
  {
    files: layers.agent,
    may: 'node builtins, contract and itself',
    allowed: within(/^node:/, layers.contract, layers.agent),
  },
  {
    files: layers.conformance,
    may: 'node builtins, contract and itself',
    allowed: within(/^node:/, layers.contract, layers.conformance),
  },
]

/** Words of a name or a path that say what it is about. */
const wordsOf = (text: string): string[] =>
  text
    .replace(/\.ts$/, '')
    .replaceAll('OpenCode', 'opencode')
    .split(/(?=[A-Z])|[^A-Za-z0-9]+/)
    .map((word) => word.toLowerCase())
    .filter((word) => word.length > 2 && !/^(src|core|rows?|the|for|from|with|all)$/.test(word))

/** `reserved` and `reservations` are one word, `key` and `keys` too. */
function sharesWord(name: string, path: string): boolean {
  const isOne = (one: string, other: string) => {
    const length = Math.max(3, Math.min(one.length, other.length) - 3)
    return one.slice(0, length) === other.slice(0, length)
  }
  return wordsOf(name).some((word) => wordsOf(path).some((other) => isOne(word, other)))
}

/** Each as the way round it. */
function cyclesOf(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const done = new Set<string>()
  const cycles: string[] = []
  const visit = (node: string, path: string[]): void => {
    if (path.includes(node))
      return void cycles.push([...path.slice(path.indexOf(node)), node].join(' -> '))
    if (done.has(node)) return
    for (const next of graph.get(node) ?? []) visit(next, [...path, node])
    done.add(node)
  }
  for (const node of graph.keys()) visit(node, [])
  return cycles
}

describe('imports', () => {
  for (const { files: pattern, may, allowed } of rules) {
    test(`${pattern.source} imports only ${may}`, () => {
      const own = sources.filter((file) => pattern.test(file))
      expect(own.length).toBeGreaterThan(0)
      const wrong = own.flatMap((file) =>
        importsOf(file)
          .filter((name) => !allowed(name))
          .map((name) => `${file} -> ${name}`),
      )
      expect(wrong).toEqual([])
    })
  }

  test('nothing but tests imports tests, and nothing but benches imports benches', () => {
    const wrong = sources.flatMap((file) =>
      importsOf(file)
        .filter(
          (name) =>
            name.startsWith('test/') || (name.startsWith('bench/') && !file.startsWith('bench/')),
        )
        .filter((name) => !(file.startsWith('bench/') && name.startsWith('test/support/')))
        .map((name) => `${file} -> ${name}`),
    )
    expect(wrong).toEqual([])
  })

  test('there are no cycles', () => {
    const own = (file: string) => importsOf(file).filter((name) => files.includes(name))
    expect(cyclesOf(new Map(files.map((file) => [file, own(file)])))).toEqual([])
  })

  // A file directly in such a folder counts by itself: some of these import many rooms, others are imported by many.
  test.each(['src/core', 'local', 'sandbox-agent', 'src/adapters', 'src/hosts'])(
    'no two folders of %s import each other, also not by way of others',
    (top) => {
      const roomOf = (file: string) => (dirname(file) === top ? file : dirname(file))
      const isOwn = (file: string) => file.startsWith(`${top}/`)
      const own = sources.filter(isOwn)
      expect(own.length).toBeGreaterThan(0)
      const graph = new Map(own.map((file) => [roomOf(file), [] as string[]]))
      for (const file of own)
        for (const name of importsOf(file).filter(isOwn))
          if (roomOf(name) !== roomOf(file)) graph.get(roomOf(file))?.push(roomOf(name))
      expect(cyclesOf(graph)).toEqual([])
    },
  )

  // The whole of `core/session` against the whole of `core/organisation`, and so on at every depth.
  test('no two folders side by side import each other, with all that is in them', () => {
    const own = sources.filter((file) => /^(src|local|sandbox-agent)\//.test(file))
    const graphs = new Map<string, Map<string, string[]>>()
    for (const file of own)
      for (const name of importsOf(file).filter((other) => own.includes(other))) {
        const [from, to] = [dirname(file).split('/'), dirname(name).split('/')]
        const at = from.findIndex((part, depth) => part !== to[depth])
        if (at < 0 || at >= to.length) continue
        const [parent, left, right] = [from.slice(0, at), from[at] ?? '', to[at] ?? '']
        const graph = graphs.get(parent.join('/')) ?? new Map<string, string[]>()
        graphs.set(parent.join('/'), graph.set(left, [...(graph.get(left) ?? []), right]))
      }
    expect(graphs.size).toBeGreaterThan(10)
    const cycles = [...graphs].flatMap(([parent, graph]) =>
      cyclesOf(graph).map((cycle) => `${parent}: ${cycle}`),
    )
    expect(cycles).toEqual([])
  })

  test('relative imports name files that exist, with their extension', () => {
    const wrong = files.flatMap((file) =>
      importsOf(file)
        .filter((name) => !isPackage(name) && !files.includes(name))
        .map((name) => `${file} -> ${name}`),
    )
    expect(wrong).toEqual([])
  })
})

describe('folders', () => {
  // Flat on purpose: one noun, one verb or one rung per file.
  const flat = ['src/contract', 'src/core/session/rungs', 'src/core/verbs', 'src/http/routes']

  test('a folder has at most about fifteen source files', () => {
    const counts = Map.groupBy(
      sources.filter((file) => /^(src|local|sandbox-agent|durable-objects)\//.test(file)),
      dirname,
    )
    const full = [...counts]
      .filter(([folder, own]) => !flat.includes(folder) && own.length > 16)
      .map(([folder, own]) => `${folder}: ${own.length}`)
    expect(full).toEqual([])
  })
})

describe('files', () => {
  const lines = (file: string) => textOf(file).split('\n').length - 1
  const exported = sources
    .filter((file) => /^(src|local|sandbox-agent|durable-objects)\//.test(file))
    .flatMap((file) =>
      [...textOf(file).matchAll(/^export (?:async )?function\*? (\w+)/gm)].map(([, name = '']) => ({
        name,
        file,
      })),
    )

  test('a source file has at most 400 lines, a Durable Object at most 170', () => {
    const tooLong = sources
      .filter((file) => lines(file) > (file.startsWith('durable-objects/') ? 170 : 400))
      .map((file) => `${file}: ${lines(file)}`)
    expect(tooLong).toEqual([])
  })

  test('a function that is exported has a name of its own, so that its name leads to its file', () => {
    const twice = [...Map.groupBy(exported, ({ name }) => name)]
      .filter(([, own]) => own.length > 1)
      .map(([name, own]) => `${name}: ${own.map(({ file }) => file).join(', ')}`)
    expect(twice).toEqual([])
  })

  // The rest of a name may be anything; without a word of its path nobody finds it from the tree.
  test('a function that is exported shares a word with its path', () => {
    const strangers = exported
      .filter(({ name, file }) => !sharesWord(name, file))
      .map(({ name, file }) => `${file} ${name}`)
    // This list only shrinks.
    expect(strangers).toEqual(['local/processes/processes.ts settledWithin'])
  })

  test('a class that is exported says what it is for, above it or at the top of its file', () => {
    const silent = sources
      .filter((file) => /^(src|local|sandbox-agent|durable-objects)\//.test(file))
      .filter((file) => !/^(\/\/|\/\*\*)/.test(textOf(file)))
      .flatMap((file) =>
        [...textOf(file).matchAll(/(\*\/|;|\}|\))?\n+export (?:abstract )?class (\w+)/g)]
          .filter(([, before]) => before !== '*/')
          .map(([, , name]) => `${file} ${name}`),
      )
    expect(silent).toEqual([])
  })

  test('a file with a class says in a sentence or two what it is for, what it promises and who calls it', () => {
    const wordsOf = (comment = '') => comment.split(/\s+/).length
    const terse = sources
      .filter((file) => /^(src|local|sandbox-agent|durable-objects|conformance)\//.test(file))
      .filter((file) =>
        /^export (?:abstract )?class \w+(?! extends (?:App)?Error)/m.test(textOf(file)),
      )
      .filter((file) => {
        const text = textOf(file)
        const [top] = /^(?:(?:\/\/.*\n)+|\/\*\*[^]*?\*\/)/.exec(text) ?? []
        const above = text.matchAll(
          /(\/\*\*(?:(?!\*\/)[^])*\*\/)\n(?:export )?(?:abstract )?class /g,
        )
        return ![top, ...[...above].map(([, comment]) => comment)].some((one) => wordsOf(one) >= 25)
      })
    expect(terse).toEqual([])
  })

  test('a file is named for its concept', () => {
    const banned =
      /(^|[-.])(service|manager|handler|helper|util|impl|base|common|shared|misc)s?([-.]|$)/
    expect(files.filter((file) => banned.test(file.split('/').at(-1) ?? ''))).toEqual([])
    expect(
      files.filter(
        (file) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.test)?\.ts$/.test(file.split('/').at(-1) ?? ''),
      ),
    ).toEqual([])
  })

  test('tests replace no modules', () => {
    const mocks = /\bvi\s*\.\s*(mock|doMock|hoisted)\b/
    expect(
      files.filter((file) => file !== 'test/layering.test.ts' && mocks.test(textOf(file))),
    ).toEqual([])
  })
})
