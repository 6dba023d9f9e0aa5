import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { randomText } from '../state/secrets.ts'
import { writePrivateFile } from '../state/private-files.ts'

/** Stops the whole deployment, whatever organisation: kept beside the first admin key, made on the first run. */
export function ensureOperatorKey(stateDir: string): string {
  const path = operatorKeyPath(stateDir)
  const known = existsSync(path) ? readFileSync(path, 'utf8').trim() : ''
  if (known !== '') return known
  const key = `go_${randomText(32, '0123456789abcdefghijklmnopqrstuvwxyz')}`
  writePrivateFile(path, `${key}\n`)
  return key
}

export const operatorKeyPath = (stateDir: string): string => join(stateDir, 'operator-key')
