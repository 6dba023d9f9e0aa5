import { afterEach, expect, it, onTestFinished, vi } from 'vitest'
import { Link } from '../../../sandbox-agent/link/link.ts'
import { linkPing } from '../../../src/contract/link.ts'
import { serveSockets } from './socket-server.ts'

afterEach(() => void vi.useRealTimers())
const limit = { timeout: 120_000 }

it('a connection on which nothing came for 40 s is lost, and opened again', async () => {
  const heard: string[] = []
  const { url, state } = await serveSockets((message, peer) => {
    heard.push(message)
    if (message.includes('"hello"')) peer.send({ t: 'welcome', protocol: 1, ackedSeq: 7 })
  })
  // Sockets and pauses are real; the clock and the pings are the test's.
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date'] })
  const told: string[] = []
  const link = new Link({
    ...{ url, boot: 'boot-1', token: () => 'the-token', isReady: () => true },
    onWelcome: (ackedSeq) => void told.push(`welcome ${ackedSeq}`),
    onMessage: () => undefined,
    onDown: () => void told.push('down'),
    onTick: () => undefined,
    onFenced: (reason) => void told.push(reason),
    isFenced: async () => false,
  })
  onTestFinished(() => link.stop())
  expect(link.send({ t: 'renew' })).toBe(false)
  link.start()
  await expect.poll(() => told, limit).toEqual(['welcome 7'])
  expect([link.connected, link.bufferedBytes, link.send({ t: 'renew' })]).toEqual([true, 0, true])
  await expect.poll(() => heard.length, limit).toBe(2)
  expect(JSON.parse(heard[0] ?? '')).toMatchObject({ t: 'hello', boot: 'boot-1', ready: true })

  vi.advanceTimersByTime(40_000)
  expect([link.connected, told]).toEqual([true, ['welcome 7']])
  await expect.poll(() => heard.includes(linkPing), limit).toBe(true)
  vi.advanceTimersByTime(20_000)
  expect([link.connected, link.send({ t: 'renew' })]).toEqual([false, false])
  await expect.poll(() => told, limit).toEqual(['welcome 7', 'down', 'welcome 7'])
  expect(state.opened).toBe(2)
  link.stop()
  expect(told.at(-1)).toBe('down')
})
