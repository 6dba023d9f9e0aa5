import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../local/binaries.ts'
import { configurationPage } from './configuration-page.ts'
import { toolsPage } from './tools-page.ts'

const folder = join(root, 'docs')
mkdirSync(folder, { recursive: true })
for (const [name, page] of Object.entries({
  'tools.md': toolsPage(),
  'configuration.md': configurationPage(),
})) {
  const path = join(folder, name)
  writeFileSync(path, page)
  console.log(path)
}
