import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { startStack } from '../../local/stack/stack.ts'

// A whole stack of whoever runs this file, until its standard input ends. Prints where it is.

export interface Site {
  url: string
  adminKey: string
  adminKeyPath: string
  stateDir: string
  mark: string
  sandboxSite: { root: string } | null
}

const enclosure = process.argv[2] ?? 'auto'
const stack = await startStack({
  stateDir: mkdtempSync(join(tmpdir(), 'gantry-redteam-')),
  host: 'workerd',
  env: { RATE_LIMIT_PER_MINUTE: '1000000', GANTRY_ENCLOSURE: enclosure },
})
const { url, adminKey, adminKeyPath, stateDir, mark, sandboxSite } = stack
const root = sandboxSite?.root ?? ''
const site: Site = { url, adminKey, adminKeyPath, stateDir, mark, sandboxSite: { root } }
console.log(JSON.stringify(site))
await text(process.stdin)
await stack.erase()
process.exit(0)
