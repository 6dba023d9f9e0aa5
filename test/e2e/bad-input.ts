import { describe, expect, test } from 'vitest'
import type { ErrorBody } from '../../src/contract/error.ts'
import type { GuardKit } from './guard-kit.ts'
import { fillPath } from './guards.ts'
import { loadRoutes } from './routes.ts'

const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`

const badBodies: Record<string, { body: string | Uint8Array; status: number; path?: string }> = {
  'no JSON': { body: '{', status: 400 },
  'bytes that are not UTF-8': { body: new Uint8Array([0x22, 0xff, 0x22]), status: 400 },
  'an array': { body: '[]', status: 400 },
  'an unknown field': { body: '{"surprise":1}', status: 400 },
  'deep JSON': { body: `{"a":${deep(100)}}`, status: 400 },
  'very deep JSON': { body: `{"a":${deep(100_000)}}`, status: 400 },
  NUL: { body: '{"a":"x\\u0000"}', status: 400, path: 'a' },
  'a lone surrogate': { body: '{"a":["x","\\ud800"]}', status: 400, path: 'a.1' },
  'a prototype': { body: '{"__proto__":{}}', status: 400, path: '__proto__' },
}

/** Bodies may be as large as a megabyte, and larger where they carry files. */
const largest: Record<string, number> = {
  'PUT /v1/abilities': 8 * 2 ** 20,
  'POST /v1/evals/compare': 8 * 2 ** 20,
  'POST /v1/evals/runs': 8 * 2 ** 20,
}
const tooLarge = (route: string) => ({
  body: JSON.stringify({ a: 'x'.repeat(largest[route] ?? 2 ** 20) }),
  status: 413,
  path: undefined,
})

/** Who may come in, so that a refusal is the body's. */
const visitors = {
  public: 'an admin',
  key: 'an admin',
  sandbox: 'the sandbox',
  operator: 'the operator',
} as const

const routes = await loadRoutes()

/** Every route with a JSON body x everything that is wrong with one. */
export function badInputSuite(host: string, open: () => GuardKit): void {
  describe(`bad input on ${host}`, () => {
    for (const route of routes.filter(({ takesJson }) => takesJson)) {
      test(`${route.method} ${route.path} refuses it with a code and a path`, async () => {
        const kit = open()
        const visitor = visitors[route.guard.kind]
        const headers = {
          authorization: `Bearer ${kit.visitors[visitor]}`,
          'content-type': 'application/json',
        }
        const bodies = { ...badBodies, 'too large': tooLarge(`${route.method} ${route.path}`) }
        for (const [name, { body, status, path }] of Object.entries(bodies)) {
          const answer = await kit.send(route.method, fillPath(kit, route.path), headers, body)
          expect([name, answer.status]).toEqual([name, status])
          const { error } = JSON.parse(answer.text) as ErrorBody
          expect(error.code).toBe(status === 413 ? 'too_large' : 'invalid_request')
          if (path !== undefined) expect(error.details?.[0]?.path).toBe(path)
        }
      })
    }

    const owned = routes.filter(({ path, guard }) => guard.kind === 'key' && /:\w+Id\b/.test(path))
    for (const route of owned.filter(({ takesJson }) => takesJson)) {
      test(`[SES4] ${route.method} ${route.path} is not found by another organisation, whatever it sends`, async () => {
        const kit = open()
        const headers = {
          authorization: `Bearer ${kit.visitors['an admin of another organisation']}`,
          'content-type': 'application/json',
        }
        const bodies = { ...badBodies, nothing: { body: '' } }
        for (const [name, { body }] of Object.entries(bodies)) {
          const answer = await kit.send(route.method, fillPath(kit, route.path), headers, body)
          const { code } = (JSON.parse(answer.text) as ErrorBody).error
          expect([name, answer.status, code]).toEqual([name, 404, 'not_found'])
        }
      })
    }

    test('[SES4] a query that does not fit tells another organisation nothing either', async () => {
      const kit = open()
      const key = kit.visitors['an admin of another organisation']
      const headers = { authorization: `Bearer ${key}` }
      for (const { path } of owned.filter(({ method }) => method === 'GET')) {
        const query = 'limit=x&after=x&cursor=%00&wait=x&surprise=1'
        const answer = await kit.send('GET', `${fillPath(kit, path)}?${query}`, headers)
        expect([path, answer.status]).toEqual([path, 404])
      }
    })

    test('ids with anything in them are not found', async () => {
      const kit = open()
      const headers = { authorization: `Bearer ${kit.adminKey}` }
      const ids = [`ses_${'0'.repeat(30)}`, 'x', '%00', '%ed%a0%80', '%f0%9f', 'a'.repeat(2000)]
      for (const id of ids) {
        for (const path of [`/v1/sessions/${id}`, `/v1/sessions/${id}/events`, `/v1/turns/${id}`]) {
          expect([path, (await kit.send('GET', path, headers)).status]).toEqual([path, 404])
        }
      }
    })
  })
}
