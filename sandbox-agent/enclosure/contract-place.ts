// The contract has its plugin at ~/.config/opencode/plugin/proliferate.mjs, and opencode.json names it there. Outside of
// an enclosure that place is OpenCode's to write, so it loads the plugin from a folder that is not. Inside, the place
// itself can be made read-only, and everything that leads to it a mount, which cannot be renamed.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Layout } from '../../src/contract/manifest.ts'

const plugin = 'plugin/proliferate.mjs'
const folderOf = ({ home }: Layout) => join(home, '.config', 'opencode')

const isThere = (layout: Layout) =>
  existsSync(join(folderOf(layout), plugin)) && folderOf(layout) !== layout.configDir

/** As places has them. */
export function contractPlaceBinds(
  layout: Layout,
): { source: string; target: string; writable: boolean }[] {
  if (!isThere(layout)) return []
  const bind = (path: string, writable: boolean) => ({ source: path, target: path, writable })
  return [bind(join(layout.home, '.config'), true), bind(folderOf(layout), false)]
}

/** Sources by their places inside: the loaded plugin, and a configuration that names it where the contract does. */
export function contractPlaceFiles(
  layout: Layout,
  write: (name: string, content: string) => string,
): Record<string, string> {
  if (!isThere(layout)) return {}
  const [loaded, contract] = [join(layout.configDir, plugin), join(folderOf(layout), plugin)]
  const config = readFileSync(join(layout.configDir, 'opencode.json'), 'utf8')
  const named = config.replaceAll(JSON.stringify(loaded), JSON.stringify(contract))
  const source = write('opencode.json', named)
  return {
    [contract]: loaded,
    [join(layout.configDir, 'opencode.json')]: source,
    [join(folderOf(layout), 'opencode.json')]: source,
  }
}
