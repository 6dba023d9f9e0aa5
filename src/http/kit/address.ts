import type { AppContext } from './context.ts'

/**
 * Whose connection a request came by, for the limit before authentication. A header counts only where nobody but
 * Cloudflare's edge can have set it; anywhere else the host gives the address of the socket. Callers without an address
 * share one.
 */
export type AddressOf = (c: AppContext) => string

/** On Cloudflare. `wrangler dev` and Miniflare pass on what a caller has sent, so on a loopback address nobody is believed. */
export const cloudflareAddress =
  (publicUrl: string): AddressOf =>
  (c) => {
    const isEdge = (c.req.raw as { cf?: unknown }).cf !== undefined && !isLoopback(publicUrl)
    return isEdge ? addressGroup(c.req.header('cf-connecting-ip') ?? '') : ''
  }

/** The host hands it over as the environment of the request. */
export const socketAddress: AddressOf = (c) =>
  addressGroup((c.env as { address?: string } | undefined)?.address ?? '')

/** Of IPv6 the first 64 bits: whoever has one such address has all of them. */
export function addressGroup(address: string): string {
  const [, mapped] = /^::ffff:([\d.]+)$/i.exec(address) ?? []
  if (mapped !== undefined || !address.includes(':')) return mapped ?? address
  const [head = '', tail] = address.toLowerCase().split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length)
  const groups = [...before, ...Array.from({ length: zeros }, () => '0'), ...after]
  return groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')
}

const isLoopback = (url: string) =>
  ['localhost', '127.0.0.1', '[::1]'].includes(new URL(url).hostname)
