import { basename, dirname } from 'node:path'
import type { Layout, SandboxEnv } from '../../src/contract/manifest.ts'
import { Folder, type Owner } from './folder.ts'

const maxBytes = 8 * 1024 * 1024

/** Merges the values into the env file, where earlier keys stay, and writes the configuration's files. Returns the paths. */
export function applyEnvFiles(env: SandboxEnv, layout: Layout, owner: Owner | undefined): string[] {
  if (Object.keys(env.values).length > 0) mergeEnvFile(env.values, layout.envFile, owner)
  return env.files.flatMap(({ path, content }) => {
    const names = path.split('/').filter((name) => name !== '' && name !== '.')
    const name = names.pop()
    if (name === undefined || [...names, name].includes('..')) return []
    const root = Folder.open(layout.workspace)
    const folder = root.descend(names, { owner })
    root.close()
    // A file of the repository stands where a folder would have to be, or the other way round: it is left alone.
    if (!folder) return []
    const isBlocked = folder.stat(name)?.isDirectory() === true
    if (!isBlocked) folder.write(name, content, 0o600, owner)
    folder.close()
    if (isBlocked) return []
    return [`${layout.workspace}/${[...names, name].join('/')}`]
  })
}

function mergeEnvFile(
  values: Record<string, string>,
  path: string,
  owner: Owner | undefined,
): void {
  const folder = Folder.open(dirname(path))
  const name = basename(path)
  const before = folder.read(name, { maxBytes })
  const merged = { ...parseValues(before), ...values }
  folder.write(name, `${JSON.stringify(merged, null, 2)}\n`, 0o600, owner)
  folder.close()
}

function parseValues(content: Buffer | 'too large' | undefined): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(String(content))
    return parsed !== null && typeof parsed === 'object' && !Array.isArray(parsed)
      ? (parsed as Record<string, unknown>)
      : {}
  } catch {
    return {}
  }
}
