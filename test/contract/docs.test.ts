import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { configurationPage, programVariables } from '../../build/configuration-page.ts'
import { toolsPage } from '../../build/tools-page.ts'
import { root } from '../../local/binaries.ts'
import { contractTools } from '../../src/contract/tools.ts'
import { Environment, variableText, variableNames } from '../../src/variables.ts'

test('the page on the tools is up to date: npm run docs', () => {
  expect(readFileSync(join(root, 'docs', 'tools.md'), 'utf8')).toBe(toolsPage())
})

test('it has every tool with its guidance, and the limits of its arguments', () => {
  const page = toolsPage()
  for (const { name, guidance } of contractTools) {
    expect(page).toContain(`\n## ${name}\n`)
    for (const line of guidance.split('\n')) expect(page).toContain(`> ${line}\n`)
  }
  expect(page).toContain('| `commands[].name` | string | yes | 1 to 100 characters |')
  expect(page).toContain('| `files[].keys` | list of object | yes | 1 to 50 entries |')
})

test('[OPS6] the page on the variables is up to date: npm run docs', () => {
  expect(readFileSync(join(root, 'docs', 'configuration.md'), 'utf8')).toBe(configurationPage())
})

test('[OPS6] every example on it is a value that passes', () => {
  for (const name of variableNames) {
    const { example } = variableText(name)
    expect([name, Environment.shape[name].safeParse(example).error]).toEqual([name, undefined])
    expect(configurationPage()).toContain(`| \`${name}\` |`)
  }
})

/** Of the system, of npm, of the bundler, from one process of ours to its child, or inside a sandbox. */
const notSettings = [
  'PATH',
  'HOME',
  'SSH_AUTH_SOCK',
  'INIT_CWD',
  'npm_lifecycle_event',
  'NODE_ENV',
  'NODE_EXTRA_CA_CERTS',
  'GANTRY_PARENT_FD',
  'GANTRY_TASK',
  'GANTRY_RUN_CACHE',
  'PROLIFERATE_GATEWAY_URL',
  'PROLIFERATE_SESSION_ID',
  'SANDBOX_MCP_AUTH_TOKEN',
]

test('[OPS6] every variable that a program reads is on it, and the other way round', () => {
  const folders = '{src,durable-objects,local,build,bin,conformance,bench}'
  const pattern = /\b(?:process\.env|Deno\.env\.get|environment)(?:\.|\[?\(?['"`])(\w+)/g
  const read = globSync(`${folders}/**/*.{ts,mjs}`, { cwd: root }).flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(pattern)].map(([, name = '']) => name),
  )
  const own = programVariables.flatMap(({ rows }) => rows.map(({ name }) => name))
  const listed = new Set<string>([...own, ...variableNames, ...notSettings])
  // `environment` also names what a manifest gives to a sandbox, under names of its own.
  expect(read.filter((name) => /^[A-Z_]+$|^npm_/.test(name) && !listed.has(name))).toEqual([])
  expect(own.filter((name) => !read.includes(name))).toEqual([])
})

test('every promise of the threat model names rules, and links tests that show each of them', () => {
  const page = readFileSync(join(root, 'docs', 'threat-model.md'), 'utf8')
  const promises = [...page.matchAll(/^\| (.+) \| ([A-Z]+\d+(?:, [A-Z]+\d+)*) \| (.+) \|$/gm)]
  // All rows of the two tables, without their heads and the lines under these.
  const tables = page.slice(page.indexOf('## Promises'), page.indexOf('## Not claimed'))
  expect(promises.length).toBe([...tables.matchAll(/^\| /gm)].length - 2)
  for (const [, promise, rules = '', links = ''] of promises) {
    const files = [...links.matchAll(/\]\(\.\.\/(test\/[^)]+)\)/g)].map(([, file = '']) => file)
    const texts = files.map((file) => readFileSync(join(root, file), 'utf8'))
    const shown = rules
      .split(', ')
      .filter((rule) => texts.some((text) => text.includes(`[${rule}]`)))
    expect([promise, shown]).toEqual([promise, rules.split(', ')])
    const useful = texts.filter((text) => shown.some((rule) => text.includes(`[${rule}]`)))
    expect([promise, useful.length]).toEqual([promise, files.length])
  }
})
