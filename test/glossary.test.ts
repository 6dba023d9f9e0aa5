import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../local/binaries.ts'

const spec = readFileSync(join(root, 'SPEC.md'), 'utf8')
const glossary = spec.slice(spec.indexOf('## Glossary'), spec.indexOf('\n## SES: '))

/** The first column; `baseline, candidate` are two. What stands in brackets tells two words of one spelling apart. */
const terms = [...glossary.matchAll(/^\| ([^|]+) \| [^|]+ \| [^|]*\|$/gm)]
  .flatMap(([, cell = '']) => cell.split(/,\s*(?![^(]*\))/))
  .filter((term) => term !== 'word' && !/^-+$/.test(term))

const wordsOf = (text: string): string[] =>
  text
    .replaceAll('OpenCode', 'opencode')
    .split(/(?=[A-Z])|[^A-Za-z0-9]+/)
    .map((word) => word.toLowerCase())
    .filter((word) => word !== '')
const known = [...new Set(terms.flatMap((term) => wordsOf(term.replace(/\(.*?\)/, ''))))]

/** `Collecting`, `Children` and `policies` are forms of `collect`, `child` and `policy`. */
const stemOf = (word: string): string =>
  word
    .replace(/(ing|ed|ren|es|s)$/, '')
    .replace(/e$/, '')
    .replace(/y$/, 'i')
const stems = new Set(known.map(stemOf))
const isInGlossary = (word: string): boolean => stems.has(stemOf(word))

/** They mean here what they mean to everybody who programs. */
const usual = new Set(
  (
    'src local build bench admin database processes users browser deno http git cli sql file files texts words code ' +
    'read compare verify dry run matching statistics reports response export mutate variables error shutdown search ' +
    'limit many rate app usage permissions router printed trouble wrong servers byte gantry durable objects reading too not enclosed modal'
  ).split(' '),
)

const files = globSync(
  '{src,durable-objects,sandbox-agent,local,build,bench,conformance,tools}/**/*.ts',
  {
    cwd: root,
    exclude: (path) => path.includes('node_modules'),
  },
)

test('no word stands in the glossary twice', () => {
  const twice = [...Map.groupBy(terms, (term) => term)].filter(([, own]) => own.length > 1)
  expect(terms.length).toBeGreaterThan(200)
  expect(twice.map(([term]) => term)).toEqual([])
})

test('every word that names a folder of the code is in the glossary, or a usual one', () => {
  const folders = new Set(files.flatMap((file) => file.split('/').slice(0, -1)))
  expect(folders.size).toBeGreaterThan(80)
  const strangers = [...folders].filter(
    (folder) => !wordsOf(folder).every((word) => isInGlossary(word) || usual.has(word)),
  )
  expect(strangers).toEqual([])
})

test('every class that is exported has a word of the glossary in its name, or is named by usual ones', () => {
  const classes = files.flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(/^export (?:abstract )?class (\w+)/gm)].map(
      ([, name = '']) => ({ name, file }),
    ),
  )
  expect(classes.length).toBeGreaterThan(120)
  const strangers = classes.filter(({ name }) => {
    const words = wordsOf(name)
    return !words.some(isInGlossary) && !words.every((word) => usual.has(word))
  })
  expect(strangers).toEqual([])
})
