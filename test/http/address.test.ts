import { Hono } from 'hono'
import { expect, test } from 'vitest'
import {
  type AddressOf,
  cloudflareAddress,
  addressGroup,
  socketAddress,
} from '../../src/http/kit/address.ts'
import type { AppEnv } from '../../src/http/kit/context.ts'

const spoofed = {
  'cf-connecting-ip': '1.1.1.1',
  'x-forwarded-for': '2.2.2.2',
  'x-real-ip': '3.3.3.3',
  forwarded: 'for=4.4.4.4',
}
async function seenBy(addressOf: AddressOf, cf: object | undefined, env?: object) {
  const app = new Hono<AppEnv>()
  app.get('/', (c) => c.text(addressOf(c)))
  const request = new Request('http://gantry.test/', { headers: spoofed })
  if (cf) Object.assign(request, { cf })
  return await (await app.fetch(request, env)).text()
}

test('[AUTH13] the header of the edge counts on Cloudflare alone', async () => {
  const hosted = cloudflareAddress('https://gantry.example')
  expect(await seenBy(hosted, { colo: 'AMS' })).toBe('1.1.1.1')
  expect(await seenBy(hosted, undefined)).toBe('')
  expect(await seenBy(cloudflareAddress('http://127.0.0.1:8787'), { colo: 'DFW' })).toBe('')
})

test('[AUTH13] elsewhere it is the socket, whatever a header says', async () => {
  expect(await seenBy(socketAddress, { colo: 'AMS' }, { address: '5.5.5.5' })).toBe('5.5.5.5')
  expect(await seenBy(socketAddress, undefined)).toBe('')
})

test.each([
  ['1.2.3.4', '1.2.3.4'],
  ['::ffff:1.2.3.4', '1.2.3.4'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:0db8:0001:0002::1', '2001:db8:1:2'],
  ['2001:DB8::1', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  ['', ''],
])('[AUTH13] %s is one of %s', (address, group) => {
  expect(addressGroup(address)).toBe(group)
})
