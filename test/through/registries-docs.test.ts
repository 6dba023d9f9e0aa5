import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { HostSession, useHost } from '../support/host.ts'

const host = useHost()
const page = readFileSync(join(root, 'docs/registries.md'), 'utf8')

/** Requests, and uses of a tool by the agent of the session before, each with the answer that the page shows. */
const steps = [
  ...page.matchAll(/```(http|tool)\n([^\n]+)\n([\s\S]*?)```\n```json\n([\s\S]*?)```/g),
].map(([, kind, first = '', body = '', answer = '']) => ({ kind, first, body, answer }))

const known = new Map<string, string>()
const filled = (text: string): string =>
  text.replaceAll(/\$[A-Z]+/g, (name) => known.get(name) ?? `no ${name}`)

/** The part of the answer that is shown must be there; a word that is new stands for what is there. */
function compare(shown: unknown, got: unknown, at: string): void {
  if (typeof shown === 'string' && /^\$[A-Z]+$/.test(shown) && !known.has(shown))
    known.set(shown, String(got))
  else if (typeof shown === 'object' && shown !== null) {
    if (Array.isArray(shown)) expect([at, got]).toEqual([at, expect.any(Array)])
    if (Array.isArray(shown)) expect([at, (got as unknown[]).length]).toEqual([at, shown.length])
    for (const [key, value] of Object.entries(shown))
      compare(value, (got as Record<string, unknown> | undefined)?.[key], `${at}.${key}`)
  } else expect([at, got]).toEqual([at, typeof shown === 'string' ? filled(shown) : shown])
}

test('[AGT18] [SKILL17] [MEM1] [MEM9] [SDD1] [SDD12] docs/registries.md can be followed from its first request to its last', async () => {
  expect(steps.length).toBeGreaterThan(30)
  let session: HostSession | undefined
  for (const { kind, first, body, answer } of steps) {
    const given = body.trim() === '' ? undefined : JSON.parse(filled(body))
    if (kind === 'tool') {
      const { json } = await session!.callback(first, given)
      compare(JSON.parse(answer), json, first)
      continue
    }
    const [method = '', path = ''] = filled(first).split(' ')
    const json = await host().ok(method, path, given)
    compare(JSON.parse(answer), json, first)
    if (first !== 'POST /v1/sessions') continue
    await host().live()
    session = new HostSession(host(), json.id)
    await session.meet()
  }
  expect(page.split('```http\n').length + page.split('```tool\n').length - 2).toBe(steps.length)
})
