/**
 * Whether an address may be posted to on a caller's word. Private, link-local and reserved addresses are refused, in
 * every spelling that a URL understands, and so are names that only a private network resolves. What a public name
 * resolves to is not known here: that a name with a private address is not reached is for the deployment's network
 * (Workers have none; elsewhere an egress filter).
 */
export function webhookTargetRefusal(text: string, allowLoopback: boolean): string | null {
  if (!URL.canParse(text)) return 'Must be a URL'
  const url = new URL(text)
  if (url.username !== '' || url.password !== '') return 'Must not contain a password'
  if (isLoopbackWebhookTarget(url.hostname)) {
    const isHttp = url.protocol === 'http:' || url.protocol === 'https:'
    return allowLoopback && isHttp ? null : 'Must not be on this machine'
  }
  if (url.protocol !== 'https:') return 'Must be an https URL'
  return hostRefusal(url.hostname)
}

export function isLoopbackWebhookTarget(hostname: string): boolean {
  const host = nameOf(hostname)
  return host === '[::1]' || host === 'localhost' || host.endsWith('.localhost') || is127(host)
}

const is127 = (host: string) => ipv4Of(host)?.[0] === 127

function hostRefusal(hostname: string): string | null {
  const host = nameOf(hostname)
  const ipv4 = ipv4Of(host)
  if (ipv4) return isPublicIpv4(ipv4) ? null : notPublic
  if (host.startsWith('[')) return isPublicIpv6(ipv6Of(host)) ? null : notPublic
  const labels = host.split('.')
  if (labels.length < 2 || labels.includes('')) return 'Must be a public host name'
  return privateTops.has(labels.at(-1) ?? '') ? 'Must be a public host name' : null
}
const notPublic = 'Must not be a private or reserved address'

/** Names that no public resolver knows, by standard or by habit. */
const privateTops = new Set(
  'local localhost internal intranet private corp home lan arpa onion alt test example invalid'.split(
    ' ',
  ),
)

/** The root's dot changes nothing: `localhost.` is `localhost`. */
const nameOf = (hostname: string) => hostname.toLowerCase().replace(/\.$/, '')

/** A URL has already turned 0x7f.1 and 2130706433 into this form. */
function ipv4Of(host: string): number[] | null {
  return /^\d+\.\d+\.\d+\.\d+$/.test(host) ? host.split('.').map(Number) : null
}

function isPublicIpv4([a = 0, b = 0, c = 0, d = 0]: number[]): boolean {
  // Where a cloud's machines get their settings and credentials, though the number is a public one.
  if (a === 168 && b === 63 && c === 129 && d === 16) return false
  if (a === 0 || a === 10 || a === 127 || a >= 224) return false
  if (a === 100) return b < 64 || b > 127
  if (a === 169) return b !== 254
  if (a === 172) return b < 16 || b > 31
  if (a === 192) return !(b === 168 || (b === 0 && (c === 0 || c === 2)) || (b === 88 && c === 99))
  if (a === 198) return !(b === 18 || b === 19 || (b === 51 && c === 100))
  return !(a === 203 && b === 0 && c === 113)
}

function ipv6Of(host: string): number[] {
  const [head = '', tail] = host.slice(1, -1).split('::')
  const groups = (part: string) => (part === '' ? [] : part.split(':').map((g) => parseInt(g, 16)))
  if (tail === undefined) return groups(head)
  const [before, after] = [groups(head), groups(tail)]
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after]
}

/** Only global unicast, without what carries an IPv4 address in it (6to4, Teredo) and what is for documents. */
function isPublicIpv6([a = 0, b = 0]: number[]): boolean {
  if (a < 0x2000 || a > 0x3fff) return false
  if (a === 0x2002 || a === 0x3fff) return false
  return !(a === 0x2001 && (b < 0x200 || b === 0xdb8))
}
