import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { HostSession, useHost } from '../support/host.ts'

const host = useHost()
const page = readFileSync(join(root, 'docs/abilities.md'), 'utf8')
const steps = [...page.matchAll(/```http\n(\w+) (\S+)\n([^`]*)```\n```json\n([^`]*)```/g)]

type Json = Record<string, unknown>

test('[ABX14] docs/abilities.md can be followed from its first request to its last', async () => {
  expect(steps.length).toBeGreaterThan(7)
  expect(steps).toHaveLength(page.split('```http').length - 1)
  const names: Record<string, string> = {}
  const filled = (text: string) =>
    Object.entries(names).reduce((all, [name, value]) => all.replaceAll(name, value), text)
  let session: HostSession | undefined
  for (const [, method = '', path = '', body = '', shown = ''] of steps) {
    const given = body.trim() === '' ? undefined : (JSON.parse(filled(body)) as Json)
    const { status, json } = await host().call(method, filled(path), given)
    expect([path, status < 300]).toEqual([path, true])
    const got = json as Json
    if (path === '/v1/sessions') names['$SESSION'] = String(got['id'])
    if (path.endsWith('/executions')) names['$EXECUTION'] = String(got['id'])
    expect(got).toMatchObject(JSON.parse(filled(shown)) as Json)
    await host().live()
    if (path === '/v1/sessions') {
      session = new HostSession(host(), String(got['id']))
      await session.meet()
    }
    // What the sandbox does of it.
    if (path.endsWith('/executions')) await session?.agent.execute({ output: 'a', exitCode: 0 })
    await host().live()
  }
})
