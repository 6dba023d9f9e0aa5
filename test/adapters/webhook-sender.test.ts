import { describe, expect, test } from 'vitest'
import { createWebhookSender } from '../../src/adapters/webhook-sender.ts'
import { webhookTargetRefusal } from '../../src/adapters/webhook-target.ts'
import { useReceiver } from '../support/webhook-receiver.ts'

const receiver = useReceiver()
const sender = createWebhookSender({ publicUrl: 'http://127.0.0.1:8787' })
const post = (path: string, timeoutMs = 5000) =>
  sender.post({ url: receiver.url(path), headers: { a: 'b' }, body: '{"x":1}', timeoutMs })

describe('[HOOK2] addresses', () => {
  const allowed = [
    'https://example.com/hook?token=1',
    'https://hooks.example.com:8443/',
    'https://8.8.8.8/',
    'https://[2606:4700::1111]/',
    'https://172.15.0.1/',
    'https://100.63.0.1/',
    'https://100.128.0.1/',
    'https://example.com./',
  ]
  const refused = [
    'http://example.com/',
    'ftp://example.com/',
    'https://user:pw@example.com/',
    'https://user@example.com/',
    'https://0.0.0.0/',
    'https://10.0.0.1/',
    'https://168.63.129.16/',
    'https://100.64.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://172.16.0.1/',
    'https://172.31.255.255/',
    'https://192.0.0.1/',
    'https://192.168.1.1/',
    'https://198.18.0.1/',
    'https://224.0.0.1/',
    'https://255.255.255.255/',
    // Other spellings of private addresses.
    'https://0x0a000001/',
    'https://167772161/',
    'https://012.0.0.1/',
    'https://10.1/',
    'https://10.0.0.1./',
    'https://１０.0.0.1/',
    'https://[::]/',
    'https://[::ffff:10.0.0.1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[64:ff9b::a00:1]/',
    'https://[2002:a00:1::]/',
    'https://[2001:0:1::1]/',
    'https://[2001:db8::1]/',
    'https://[fe80::1]/',
    'https://[fd00::1]/',
    'https://[ff02::1]/',
    'https://intranet/',
    'https://printer.local/',
    'https://metadata.google.internal/',
    'https://a..com/',
    'https://1.1.168.192.in-addr.arpa/',
    'not a URL',
  ]
  const loopback = [
    'http://127.0.0.1:9/',
    'https://127.9.9.9/',
    'http://2130706433/',
    'http://0x7f.1/',
    'http://localhost/',
    'http://LOCALHOST./',
    'http://a.localhost/',
    'http://[::1]:1/',
  ]
  test.each(allowed)('%s is allowed', (url) => {
    expect(webhookTargetRefusal(url, false)).toBeNull()
    expect(webhookTargetRefusal(url, true)).toBeNull()
  })
  test.each(refused)('%s is refused', (url) => {
    expect(webhookTargetRefusal(url, false)).not.toBeNull()
    expect(webhookTargetRefusal(url, true)).not.toBeNull()
  })
  test.each(loopback)('%s is for a deployment on loopback only', (url) => {
    expect(webhookTargetRefusal(url, false)).not.toBeNull()
    expect(webhookTargetRefusal(url, true)).toBeNull()
  })

  test('what is refused is not sent, also if it was stored under another rule', async () => {
    const remote = createWebhookSender({ publicUrl: 'https://gantry.example.com' })
    const url = receiver.url('/inside')
    const answer = await remote.post({ url, headers: {}, body: '{}', timeoutMs: 1000 })
    expect(answer).toEqual({
      status: null,
      error: 'Address refused: Must not be on this machine',
    })
    expect(receiver.received).toEqual([])
  })
})

describe('[HOOK7] one post', () => {
  test('carries the body and the headers as they are; the answer is its status', async () => {
    receiver.behave('/', 299)
    expect(await post('/')).toEqual({ status: 299 })
    expect(receiver.received).toMatchObject([{ text: '{"x":1}', headers: { a: 'b' } }])
  })

  test('a redirect is not followed', async () => {
    receiver.behave('/moved', { redirectTo: receiver.url('/there') })
    expect(await post('/moved')).toEqual({ status: 302 })
    expect(receiver.at('/there')).toEqual([])
  })

  test('whoever hangs is left', async () => {
    receiver.behave('/slow', 'hang')
    expect(await post('/slow', 50)).toEqual({ status: null, error: 'No answer within 50 ms' })
  })

  test('a failure is told without the address', async () => {
    receiver.behave('/with-a-secret', 'close')
    const closed = await post('/with-a-secret')
    const nobody = await sender.post({
      url: 'http://127.0.0.1:1/with-a-secret',
      headers: {},
      body: '{}',
      timeoutMs: 5000,
    })
    expect([closed, nobody]).toEqual(
      Array.from({ length: 2 }, () => ({ status: null, error: 'Cannot connect' })),
    )
  })
})
