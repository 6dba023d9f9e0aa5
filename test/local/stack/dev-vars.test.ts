import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { expect, test } from 'vitest'
import { root } from '../../../local/binaries.ts'
import { writeDevVars } from '../../../local/stack/dev-vars.ts'
import { readConfig } from '../../../src/config.ts'
import { tempDir, tempFile } from '../support.ts'

const database = { url: 'http://127.0.0.1:9999', token: 'a$1b' }
const example = readFileSync(join(root, '.dev.vars.example'), 'utf8')

test('[OPS12] the example is a whole configuration, for this machine only', () => {
  expect(readConfig(parseEnv(example)).problems).toEqual([])
  const deployed = { ...parseEnv(example), GANTRY_PUBLIC_URL: 'https://gantry.example.com' }
  expect(readConfig(deployed).problems).toHaveLength(3)
})

test('[OPS12] a new file has the database and secrets of its own, for its owner alone', () => {
  const path = join(tempDir(), '.dev.vars')
  expect(writeDevVars(path, database)).toBe(true)
  const made = parseEnv(readFileSync(path, 'utf8'))
  expect(made).toMatchObject({ LIBSQL_URL: database.url, LIBSQL_TOKEN: database.token })
  expect(statSync(path).mode & 0o777).toBe(0o600)
  const deployed = { ...made, GANTRY_PUBLIC_URL: 'https://gantry.example.com' }
  expect(readConfig(deployed).problems).toEqual([])
  const before = readFileSync(path, 'utf8')
  expect(writeDevVars(path, database)).toBe(true)
  expect(readFileSync(path, 'utf8')).toBe(before)
})

test('[OPS12] a file that is there keeps every other line', () => {
  const path = tempFile('.dev.vars', 'GANTRY_MODEL=mine\nLIBSQL_URL=http://127.0.0.1:1\n# note\n')
  expect(writeDevVars(path, database)).toBe(true)
  expect(readFileSync(path, 'utf8')).toBe(
    'GANTRY_MODEL=mine\nLIBSQL_URL=http://127.0.0.1:9999\n# note\nLIBSQL_TOKEN=a$1b\n',
  )
})

test('[OPS12] a file that names a database elsewhere is left alone', () => {
  const text = 'LIBSQL_URL=libsql://production.turso.io\nLIBSQL_TOKEN=theirs\n'
  const path = tempFile('.dev.vars', text)
  expect(writeDevVars(path, database)).toBe(false)
  expect(readFileSync(path, 'utf8')).toBe(text)
  writeFileSync(path, text.replace('libsql://production', 'http://127.0.0.1.evil'))
  expect(writeDevVars(path, database)).toBe(false)
})
