import { webhookTargetRefusal } from '../../../adapters/webhook-target.ts'

/** Of a host as a secret's mark spells it. */
export const originOf = (host: string): string =>
  host.startsWith('http://') ? host : `https://${host}`

/**
 * Why requests with a secret must not go there; null: they may. The internet is reached by TLS alone; what is not on it
 * only if the deployment names host and port.
 */
export function upstreamRefusal(host: string, privateHosts: readonly string[]): string | null {
  const origin = originOf(host)
  if (!URL.canParse(origin)) return 'Must be a host'
  const url = new URL(origin)
  if (url.origin !== origin) return `Must be written "${url.origin.replace(/^https:\/\//, '')}"`
  const port = url.port || (url.protocol === 'http:' ? '80' : '443')
  if (privateHosts.includes(`${url.hostname}:${port}`)) return null
  if (url.protocol === 'http:') return 'Must be reached by TLS: leave out "http://"'
  return webhookTargetRefusal(url.href, false)
}
