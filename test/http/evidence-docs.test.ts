import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { runVerifyCommand } from '../../local/verify/command.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
const page = readFileSync(join(root, 'docs/evidence.md'), 'utf8')
const folder = mkdtempSync(join(tmpdir(), 'gantry-evidence-docs-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const blocks = (language: string) =>
  [...page.matchAll(/```(\w*)\n([\s\S]*?)```/g)].flatMap(([, of, text = '']) =>
    of === language ? [text] : [],
  )

let app: TestApp
let key: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  key = (await app.makeKey(await app.makeOrganisation(), 'write')).secret
})

describe('docs/evidence.md', () => {
  const [fixture = ''] = blocks('json')
  const evaluate = async (text: string) =>
    (await app.call('POST', '/v1/evidence/evaluate', key, JSON.parse(text))).json

  test('[EXP11] the fixture is proven', async () => {
    expect(await evaluate(fixture)).toMatchObject({ upgraded: 1, metadataOnly: 0, diagnostics: [] })
  })

  test('[EXP11] each change of it has the reason that the table names', async () => {
    const rows = [...page.matchAll(/^\| `("(\w+)": .+)` \| `([a-z-]+)` \|$/gm)]
    expect(rows.length).toBeGreaterThan(6)
    for (const [, change = '', field = '', reason] of rows) {
      const value = new RegExp(`"${field}": ("(?:[^"\\\\]|\\\\.)*"|[\\w]+)`)
      expect(fixture).toMatch(value)
      const { upgraded, diagnostics } = await evaluate(fixture.replace(value, () => change))
      expect([change, upgraded]).toEqual([change, 0])
      expect(diagnostics.join('\n')).toContain(`/${reason}: prt-1`)
    }
  })

  test('[EXP11] the commands give the file and the keys, and the verifier says what the page says', async () => {
    const { json } = await app.call('POST', '/v1/runs', key, { intent: 'x' })
    await app.call('POST', `/v1/runs/${json.id}/events`, key, { kind: 'memory.read' })
    const [, commands = '', command = '', look = ''] = blocks('sh')
    for (const line of commands.trim().split('\n')) await download(line, json.id as string)
    const [whole = '', broken = ''] = blocks('')
    const shown = await verify(command)
    const named = (text: string) => text.replace('RUN', json.id as string).replace('KEY', keyId())
    expect(shown).toEqual(named(whole).trim().split('\n'))
    const lines = readFileSync(join(folder, 'run.intoto.jsonl'), 'utf8').split('\n')
    const [ours, theirs] = execFileSync('bash', ['-c', look], { cwd: folder, encoding: 'utf8' })
      .split('\n')
      .map((line) => line.split(' ')[0])
    expect(ours).toBe(theirs)
    const changed = lines.with(2, `${lines[2]} `).join('\n')
    writeFileSync(join(folder, 'run.intoto.jsonl'), changed)
    expect((await verify(command)).at(-1)).toBe(broken.trim())
  })
})

async function download(line: string, runId: string) {
  const [, path = '', file = ''] = /curl -s \$GANTRY(\S+) .*-o (\S+)$/.exec(line) ?? []
  const headers: Record<string, string> = line.includes('authorization')
    ? { authorization: `Bearer ${key}` }
    : {}
  const response = await app.app.request(path.replace('$RUN', runId), { headers })
  writeFileSync(join(folder, file), await response.text())
}

async function verify(command: string): Promise<string[]> {
  const [, args = ''] = /^npm run verify -- (.+)$/m.exec(command) ?? []
  const said: string[] = []
  await runVerifyCommand(args.split(' '), {
    say: (line) => said.push(line),
    read: (path) => readFileSync(join(folder, path)),
    fetch: () => expect.fail('It must not use the network'),
  })
  return said
}

const keyId = () =>
  (JSON.parse(readFileSync(join(folder, 'keys.json'), 'utf8')) as { keys: { kid: string }[] })
    .keys[0]?.kid ?? ''
