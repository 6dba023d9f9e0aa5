import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
const page = readFileSync(join(root, 'docs/policies.md'), 'utf8')
const workspace = '/home/user/workspace'

interface Row {
  act: string
  decision: string
  rule: string
}
/** Each document with the rows of the table below it. */
const examples = page
  .split('```yaml\n')
  .slice(1)
  .map((part) => {
    const [source = '', after = ''] = part.split('```\n')
    const rows = [...after.matchAll(/^\| `(.+)` \| (allow|ask|deny) \| `(.+)` \|$/gm)].map(
      ([, act = '', decision = '', rule = '']): Row => ({ act, decision, rule }),
    )
    return { source, rows }
  })

/** As the table says it: a tool, and a command or a file. */
function requestOf(act: string) {
  const [tool = '', ...rest] = act.split(' ')
  const what = rest.join(' ')
  return tool === 'bash'
    ? { category: 'shell', tool, command: what }
    : { category: tool, tool, paths: [`${workspace}/${what}`] }
}

let app: TestApp
let key: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  key = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})
const check = (body: object) => app.call('POST', '/v1/policies/check', key, body)

test('[POLS15] every document in docs/policies.md is valid and decides what the page says', async () => {
  expect(examples.length).toBeGreaterThan(3)
  for (const { source, rows } of examples) {
    expect(rows.length).toBeGreaterThan(1)
    const { status, json } = await check({
      source,
      requests: rows.map(({ act }) => requestOf(act)),
    })
    expect([source, status]).toEqual([source, 200])
    const decided = json.decisions.map((one: Row, index: number) => ({
      act: rows[index]?.act,
      decision: one.decision,
      rule: one.rule,
    }))
    expect(decided).toEqual(rows)
  }
})

test('[POLS15] the warning that the page quotes is the first of that document', async () => {
  const [, quoted] = /they begin with "([^"]+)"/.exec(page) ?? []
  const source = examples.at(-1)?.source
  expect((await check({ source })).json.warnings[0]).toBe(quoted)
})
