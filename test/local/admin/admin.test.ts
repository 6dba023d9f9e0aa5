import { spawn } from 'node:child_process'
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { runAdmin } from '../../../local/admin/admin.ts'
import { root } from '../../../local/binaries.ts'
import { loadMigrations } from '../../../local/database/migrations.ts'
import { schemaVersion } from '../../../src/contract/version.ts'
import { createTestApp } from '../../support/app.ts'
import { useEmptyLibsql } from '../../support/libsql.ts'
import { tempDir } from '../support.ts'

const libsql = useEmptyLibsql()
const secret = Buffer.alloc(32, 9).toString('base64')
const secrets = {
  GANTRY_ID_SECRET: secret,
  GANTRY_TOKEN_KEYS: `k1:${secret}`,
  GANTRY_SEAL_KEYS: `k1:${secret}`,
  GANTRY_PUBLIC_URL: 'https://gantry.example.com',
  ANTHROPIC_API_KEY: 'sk-test',
}
const database = () => ({ LIBSQL_URL: libsql.server().url, LIBSQL_TOKEN: libsql.server().token })

/** The command in this process, with these variables only. */
async function run(args: string[], environment: Record<string, string> = database(), cwd = root) {
  const out: string[] = []
  const err: string[] = []
  const code = await runAdmin(args, {
    environment,
    cwd,
    say: (line) => void err.push(line),
    print: async (line) => void out.push(line),
  })
  return { code, stdout: out.join('\n'), stderr: err.join('\n') }
}

/** As people call it. */
async function npm(args: string[], cwd: string) {
  const env = { PATH: process.env['PATH'] ?? '', HOME: cwd, ...database() }
  const child = spawn('npm', ['--prefix', root, 'run', '--silent', 'admin', '--', ...args], {
    env,
    cwd,
  })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: await ended, stdout, stderr }
}
const rows = (table: string) => libsql.db().all<Record<string, unknown>>(`select * from ${table}`)
const keyArgs = (name: string) =>
  ['create-key', '--organisation', 'Acme', '--scopes', 'admin', '--name', name] as const

describe('wrong calls', () => {
  test.each([
    [[], 'There is no command ""'],
    [['migrat'], 'There is no command "migrat"'],
    [['toString'], 'There is no command "toString"'],
    [['migrate', '--name', 'x'], '"migrate" has no option --name'],
    [['migrate', '--force'], '--force'],
    [['create-organisation'], 'Set --name'],
    [['create-organisation', '--name', ''], 'Set --name'],
    [['create-key', '--organisation', 'Acme', '--name', 'x', '--scopes', 'admin'], '--key-file'],
    [[...keyArgs('x'), '--key-file', 'x', '--print'], 'Set one of --key-file and --print'],
    [['create-key', '--organisation', 'Acme', '--name', 'x', '--print'], 'Set --scopes'],
    [[...keyArgs('x'), '--print', '--scopes', 'root'], 'Set --scopes'],
    [[...keyArgs('x'), '--print', '--expires-days', '0'], 'Set --expires-days'],
    [[...keyArgs('x'), '--print', '--expires-days', 'soon'], 'Set --expires-days'],
    [['create-key', '--name', 'x', '--scopes', 'read', '--print'], 'Set --organisation'],
  ])('[OPS8] %j ends with 2, says what is wrong and how to call it', async (args, problem) => {
    const { code, stdout, stderr } = await run(args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(problem)
    expect(stderr).toContain('Usage: npm run admin --')
  })

  test('[OPS8] --help ends with 0', async () => {
    const { code, stdout } = await run(['--help'], {})
    expect(code).toBe(0)
    for (const command of ['migrate', 'create-organisation', 'create-key', 'check'])
      expect(stdout).toContain(`\n  ${command} `)
  })

  test.each([
    [{}, 'LIBSQL_URL: is not set'],
    [{ LIBSQL_URL: 'hunter2' }, 'LIBSQL_URL: Must be a URL'],
    [{ LIBSQL_URL: 'http://127.0.0.1:1' }, 'Look at LIBSQL_URL'],
  ])('[OPS8] with %j each command ends with 1 and names the variable', async (env, problem) => {
    for (const args of [
      ['migrate'],
      ['create-organisation', '--name', 'Acme'],
      [...keyArgs('x'), '--print'],
      ['check'],
    ]) {
      const { code, stdout, stderr } = await run(args, env)
      expect([code, stdout]).toEqual([1, ''])
      expect(stderr).toContain(problem)
      expect(stderr).not.toContain('hunter2')
    }
  })

  test('[OPS8] a token that is refused or may only read is named, and is not shown', async () => {
    for (const token of ['hunter2', libsql.readToken()]) {
      const { code, stderr } = await run(['migrate'], { ...database(), LIBSQL_TOKEN: token })
      expect(code).toBe(1)
      expect(stderr).toContain('LIBSQL_TOKEN')
      expect(stderr).not.toContain(token)
    }
  })
})

describe('on an empty database', () => {
  const empty = useEmptyLibsql()
  const fresh = useEmptyLibsql()
  const at = (server: typeof empty) => ({
    LIBSQL_URL: server.server().url,
    LIBSQL_TOKEN: server.server().token,
  })

  test('[OPS8] commands that need tables name the one to run first, and check says what is missing', async () => {
    const early = await run(['create-organisation', '--name', 'Acme'], at(empty))
    expect(early.code).toBe(1)
    expect(early.stderr).toContain('npm run admin -- migrate')
    const { code, stderr } = await run(['check'], at(empty))
    expect(code).toBe(1)
    expect(stderr).toMatch(/missing +configuration +GANTRY_ID_SECRET: is not set/)
    expect(stderr).toMatch(/ok +libSQL/)
    expect(stderr).toMatch(/missing +schema +There is none/)
  })

  test('[OPS9] migrate brings the schema, and again changes nothing and says so; two at once do not hurt', async () => {
    const migrate = () => run(['migrate'], at(fresh))
    const applied = () => fresh.db().all<{ name: string }>('select * from _migrations')
    const [first, beside] = await Promise.all([migrate(), migrate()])
    expect([first.code, beside.code]).toEqual([0, 0])
    const names = loadMigrations(join(root, 'migrations')).map(({ name }) => name)
    for (const name of names) expect(first.stderr + beside.stderr).toContain(`Applied ${name}`)
    const before = await applied()
    expect(before.map(({ name }) => name)).toEqual(names)
    const again = await migrate()
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('Nothing to do')])
    expect(await applied()).toEqual(before)
  })
})

describe('organisations and keys', () => {
  beforeAll(async () => {
    await run(['migrate'])
    await run(['create-organisation', '--name', 'Acme'])
    await run([...keyArgs('of the group'), '--print'])
  })

  test('[OPS10] an organisation is made once per name, by however many at once', async () => {
    const make = () => run(['create-organisation', '--name', 'Globex'])
    const made = async () =>
      (await rows('organisations')).filter(({ name }) => name === 'Globex').map(({ id }) => id)
    const both = await Promise.all([make(), make()])
    expect(both.map(({ code }) => code)).toEqual([0, 0])
    const [id, ...others] = await made()
    expect(others).toEqual([])
    for (const { stderr } of both) expect(stderr).toContain(String(id))
    expect((await make()).stderr).toContain('Nothing to do')
    expect(await made()).toEqual([id])
  })

  test('[OPS10] a key is in its file, for its owner alone, is printed nowhere, and opens the API', async () => {
    const dir = tempDir()
    const { code, stdout, stderr } = await run(
      [...keyArgs('first'), '--key-file', 'acme.key'],
      database(),
      dir,
    )
    expect([code, stdout]).toEqual([0, ''])
    const path = join(dir, 'acme.key')
    const key = readFileSync(path, 'utf8').trim()
    expect(stderr).toContain(path)
    expect(stderr).not.toContain(key)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    const app = createTestApp({ db: libsql.db })
    expect((await app.call('GET', '/v1/keys', key)).json.items).toContainEqual(
      expect.objectContaining({ name: 'first', owner: 'operator', scopes: ['admin'] }),
    )

    // When it was last used is written after the answer.
    await app.settle()
    const before = await rows('api_keys')
    const again = await run([...keyArgs('first'), '--key-file', path])
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('Nothing to do')])
    expect(readFileSync(path, 'utf8').trim()).toBe(key)
    expect(await rows('api_keys')).toEqual(before)

    const elsewhere = join(dir, 'other.key')
    const refused = await run([...keyArgs('first'), '--key-file', elsewhere])
    expect([refused.code, existsSync(elsewhere)]).toEqual([1, false])
    expect(refused.stderr).toContain('Nothing was changed')
    const other = await run([...keyArgs('second'), '--key-file', path])
    expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('holds another key')])
    expect(await rows('api_keys')).toEqual(before)
    expect(readdirSync(dir)).toEqual(['acme.key'])
  })

  test('[OPS10] killed between file and row: the key opens nothing yet, and the same command finishes it', async () => {
    const path = join(tempDir(), 'half.key')
    writeFileSync(path, `gk_${'h'.repeat(32)}\n`)
    const app = createTestApp({ db: libsql.db })
    expect((await app.call('GET', '/v1/keys', `gk_${'h'.repeat(32)}`)).status).toBe(401)
    expect((await run([...keyArgs('half'), '--key-file', path])).code).toBe(0)
    const again = createTestApp({ db: libsql.db })
    expect((await again.call('GET', '/v1/keys', `gk_${'h'.repeat(32)}`)).status).toBe(200)
  })

  test('[OPS10] a file that cannot be written: no key is made', async () => {
    const path = join(tempDir(), 'no', 'such', 'folder.key')
    const { code, stderr } = await run([...keyArgs('nowhere'), '--key-file', path])
    expect([code, stderr]).toEqual([1, expect.stringContaining(`"${path}"`)])
    expect((await rows('api_keys')).filter(({ name }) => name === 'nowhere')).toEqual([])
  })

  test('[OPS10] what is in the file and is no key is left alone', async () => {
    const path = join(tempDir(), 'notes.txt')
    writeFileSync(path, 'my notes')
    const { code, stderr } = await run([...keyArgs('notes'), '--key-file', path])
    expect([code, readFileSync(path, 'utf8')]).toEqual([1, 'my notes'])
    expect(stderr).toContain('holds something else')
  })

  test('[OPS10] [MBR2] --print prints the key alone on standard output, once, and it has its member', async () => {
    const args = [...keyArgs('ci'), '--scopes', 'read,write', '--owner', 'CI', '--print']
    const { code, stdout, stderr } = await run([...args, '--expires-days', '30'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^gk_[0-9a-z]{32}$/)
    expect(stderr).not.toContain(stdout.trim())
    const [row] = (await rows('api_keys')).filter(({ name }) => name === 'ci')
    expect(row).toMatchObject({ owner: 'CI', scopes: '["read","write"]' })
    expect(Number(row?.['expires_at']) - Number(row?.['created_at'])).toBeGreaterThan(29 * 86_400e3)
    const named = async () => (await rows('members')).filter(({ name }) => name === 'CI')
    expect(await named()).toMatchObject([{ created_by: null, disabled_at: null }])
    const again = await run(args)
    expect(await named()).toHaveLength(1)
    expect([again.code, again.stdout]).toEqual([1, ''])
    expect(again.stderr).toContain('shown once')
  })

  test('[OPS10] an organisation can be named by its id; an unknown one is refused with what to do', async () => {
    const [acme] = (await rows('organisations')).filter(({ name }) => name === 'Acme')
    const args = (organisation: string) => [
      'create-key',
      '--organisation',
      organisation,
      '--name',
      'by id',
      '--scopes',
      'read',
      '--print',
    ]
    expect((await run(args(String(acme?.['id'])))).code).toBe(0)
    const unknown = await run(args('Nobody'))
    expect([unknown.code, unknown.stdout]).toEqual([1, ''])
    expect(unknown.stderr).toContain('create-organisation --name "Nobody"')
  })

  test('[OPS11] check finds nothing missing, from the shell or from a file', async () => {
    const dir = tempDir()
    const variables = { ...secrets, ...database() }
    const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}`)
    writeFileSync(join(dir, 'production.env'), lines.join('\n'))
    const found = await run(['check', '--vars', 'production.env'], {}, dir)
    expect(found.stderr).toContain('Nothing is missing')
    expect(found.stderr).toContain(schemaVersion)
    expect(found.code).toBe(0)
    for (const value of [secret, libsql.server().token]) expect(found.stderr).not.toContain(value)
    const shellWins = { ...database(), LIBSQL_TOKEN: 'wrong' }
    expect((await run(['check', '--vars', 'production.env'], shellWins, dir)).code).toBe(1)
  })

  test('[OPS11] check asks the provider, and wants an address that its sandboxes reach', async () => {
    const { code, stderr } = await run(['check'], {
      ...secrets,
      ...database(),
      GANTRY_PUBLIC_URL: 'http://127.0.0.1:8787',
      GANTRY_E2B_API_KEY: 'e2b_not_a_key',
      GANTRY_E2B_API_URL: 'http://127.0.0.1:1',
    })
    expect(code).toBe(1)
    expect(stderr).toMatch(/missing +e2b: public URL/)
    expect(stderr).toMatch(/missing +e2b: api key/)
    expect(stderr).not.toContain('e2b_not_a_key')
  })

  test('[OPS11] check --deployment tells what a deployment says of itself, and fails with it', async () => {
    const app = createTestApp({ db: libsql.db })
    const server = createServer((request, response) => {
      void app.call('GET', request.url ?? '').then(({ status, text }) => {
        response.writeHead(status, { 'content-type': 'application/json' }).end(text)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const ready = await run(['check', '--deployment', `${url}/`], {})
    expect([ready.code, ready.stderr]).toEqual([0, expect.stringMatching(/ok +schema/)])
    await libsql.db().batch([{ sql: 'alter table _migrations rename to _kept', values: [] }])
    app.pass(60_000)
    const late = await run(['check', '--deployment', url], {})
    await libsql.db().batch([{ sql: 'alter table _kept rename to _migrations', values: [] }])
    expect([late.code, late.stderr]).toEqual([1, expect.stringMatching(/missing +schema/)])
    const away = await run(['check', '--deployment', 'http://127.0.0.1:1'], {})
    expect([away.code, away.stderr]).toEqual([1, expect.stringContaining('/readyz')])
  })

  test('[OPS11] a file of variables that is not there is named', async () => {
    const { code, stderr } = await run(['check', '--vars', 'nowhere.env'])
    expect([code, stderr]).toEqual([1, expect.stringContaining('nowhere.env')])
  })

  test('[OPS8] through npm: paths are meant from where it is called, and codes come through', async () => {
    const dir = tempDir()
    const made = await npm([...keyArgs('npm'), '--key-file', 'npm.key'], dir)
    expect([made.code, made.stdout]).toEqual([0, ''])
    expect(readFileSync(join(dir, 'npm.key'), 'utf8')).toMatch(/^gk_[0-9a-z]{32}\n$/)
    const printed = await npm([...keyArgs('npm printed'), '--print'], dir)
    expect(printed.stdout).toMatch(/^gk_[0-9a-z]{32}\n$/)
    expect((await npm(['nonsense'], dir)).code).toBe(2)
  })
})
