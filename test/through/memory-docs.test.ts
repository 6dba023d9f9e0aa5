import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { useHost } from '../support/host.ts'

const host = useHost()
const page = readFileSync(join(root, 'docs/memory-and-phases.md'), 'utf8')
const steps = [...page.matchAll(/```http\n(\w+) (\S+)\n(.*?)```\n```json\n(.*?)```/gs)]

test('[MEM1] [MEM9] [SDD1] [SDD12] the page is followed to the letter', async () => {
  expect(steps.length).toBe(page.split('```http').length - 1)
  const known = new Map<string, string>()
  const filled = (text: string) => text.replaceAll(/\$[A-Z]+/g, (name) => known.get(name) ?? name)
  for (const [, method = '', path = '', body = '', answer = ''] of steps) {
    const sent = body.trim() === '' ? undefined : JSON.parse(filled(body))
    const got = await host().ok(method, filled(path), sent)
    const shown = JSON.parse(filled(answer)) as Record<string, unknown>
    // A name that is new here is told by this answer.
    for (const [field, value] of Object.entries(shown)) {
      if (typeof value !== 'string' || !value.startsWith('$')) continue
      known.set(value, got[field])
      shown[field] = got[field]
    }
    expect(got).toMatchObject(shown)
  }
})
