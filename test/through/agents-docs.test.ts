import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { useHost } from '../support/host.ts'

const host = useHost()
const page = readFileSync(join(root, 'docs/agents.md'), 'utf8')
const steps = [...page.matchAll(/```http\n(\w+) (\S+)\n([^`]*)```\n```json\n([^`]*)```/g)]

type Json = Record<string, unknown>

test('[AGT18] docs/agents.md can be followed from its first request to its last', async () => {
  expect(steps.length).toBeGreaterThan(8)
  expect(steps).toHaveLength(page.split('```http').length - 1)
  let agentId = ''
  const filled = (text: string) => (agentId === '' ? text : text.replaceAll('$AGENT', agentId))
  for (const [, method = '', path = '', body = '', shown = ''] of steps) {
    const given = body.trim() === '' ? undefined : (JSON.parse(body) as Json)
    const got = (await host().ok(method, filled(path), given)) as Json
    if (agentId === '') agentId = String(got['id'])
    expect(got).toMatchObject(JSON.parse(filled(shown)) as Json)
  }
})
