import { describe, expect, test } from 'vitest'
import { hosts, request, useStack } from '../support/stack.ts'

describe.each(hosts)('a flood of made-up keys on %s', (host) => {
  // Its own: the flood would stand in the way of others.
  const stack = useStack(host, async () => ({}))

  test('[AUTH13] [AUTH3] no header makes it many addresses, and who is known goes on', async () => {
    const session = await stack().createSession()
    const token = await stack().token(session)
    const startedAt = Date.now()
    const statuses: number[] = []
    for (let n = 0; n < 300; n += 20) {
      const asked = Array.from({ length: 20 }, (_, i) => {
        const address = `10.1.${n % 256}.${i}`
        const headers = {
          'cf-connecting-ip': address,
          'x-forwarded-for': address,
          'x-real-ip': address,
          forwarded: `for=${address}`,
        }
        const key = `gk_${String(n + i).padStart(32, '0')}`
        return request('GET', `${stack().url}/v1/status`, key, undefined, headers)
      })
      statuses.push(...(await Promise.all(asked)).map(({ status }) => status))
    }
    // Ten, and one more for every six seconds that the machine took.
    const lookedUp = statuses.filter((status) => status === 401).length
    expect(lookedUp).toBeLessThanOrEqual(11 + (Date.now() - startedAt) / 6000)
    expect(statuses.filter((status) => status === 429).length).toBe(300 - lookedUp)
    expect((await stack().api('GET', '/v1/status')).status).toBe(200)
    expect((await stack().call(token, session, 'noop', 'a')).status).toBe(200)
  })
})
