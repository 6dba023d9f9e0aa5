import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../local/binaries.ts'
import { toolsPage } from './tools-page.ts'

const folder = join(root, 'docs')
mkdirSync(folder, { recursive: true })
const path = join(folder, 'tools.md')
writeFileSync(path, toolsPage())
console.log(path)
