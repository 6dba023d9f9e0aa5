import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { toolsPage } from '../../build/tools-page.ts'
import { root } from '../../local/binaries.ts'
import { contractTools } from '../../src/contract/tools.ts'

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
