import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { root } from '../binaries.ts'
import { randomSecret } from '../state/secrets.ts'
import { writePrivateFile } from '../state/private-files.ts'

/**
 * Puts the database into the file that `wrangler dev` reads. A file that is there keeps every other line; one that names a
 * database elsewhere is left alone: false.
 */
export function writeDevVars(path: string, database: { url: string; token: string }): boolean {
  const libsql = { LIBSQL_URL: database.url, LIBSQL_TOKEN: database.token }
  if (!existsSync(path)) {
    const example = readFileSync(join(root, '.dev.vars.example'), 'utf8')
    writePrivateFile(path, withValues(example, { ...libsql, ...newSecrets() }))
    return true
  }
  const current = readFileSync(path, 'utf8')
  const { LIBSQL_URL: known = '' } = parseEnv(current)
  if (known !== '' && !/^http:\/\/(127\.0\.0\.1|localhost)(:|\/|$)/.test(known)) return false
  const changed = withValues(current, libsql)
  if (changed !== current) writePrivateFile(path, changed)
  return true
}

const newSecrets = () => ({
  GANTRY_ID_SECRET: randomSecret(),
  GANTRY_TOKEN_KEYS: `k1:${randomSecret()}`,
  GANTRY_SEAL_KEYS: `k1:${randomSecret()}`,
  GANTRY_EXPORT_KEYS: `k1:${randomSecret()}`,
})

function withValues(text: string, values: Record<string, string>): string {
  return Object.entries(values).reduce((lines, [name, value]) => {
    const line = new RegExp(`^${name}=.*$`, 'm')
    return line.test(lines)
      ? lines.replace(line, () => `${name}=${value}`)
      : `${lines.trimEnd()}\n${name}=${value}\n`
  }, text)
}
