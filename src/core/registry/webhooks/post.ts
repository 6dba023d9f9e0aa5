import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import { deliveryHeader, signatureHeader } from '../../../contract/webhook.ts'
import type { WebhookAnswer, WebhookPost } from '../../ports.ts'

const timeoutMs = 10_000

export interface Message {
  url: string
  secret: string
  deliveryId: string
  body: string
}

export function signedPost(now: number, { url, secret, deliveryId, body }: Message): WebhookPost {
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'gantry-webhook',
    [deliveryHeader]: deliveryId,
    [signatureHeader]: postSignature(secret, Math.floor(now / 1000), body),
  }
  return { url, headers, body, timeoutMs }
}

/** The time is signed too, so that a receiver can refuse what somebody sends again later. */
export function postSignature(secret: string, atSeconds: number, body: string): string {
  const mac = hmac(sha256, utf8ToBytes(secret), utf8ToBytes(`${atSeconds}.${body}`))
  return `t=${atSeconds},v1=${bytesToHex(mac)}`
}

export const isDelivered = ({ status }: WebhookAnswer): boolean =>
  status !== null && status >= 200 && status < 300

/** null: it was delivered. */
export function postError(answer: WebhookAnswer): string | null {
  if (answer.status === null) return answer.error
  if (isDelivered(answer)) return null
  // A platform may hide the status of a redirect that it does not follow.
  const isRedirect = answer.status === 0 || (answer.status >= 300 && answer.status < 400)
  return isRedirect ? 'Redirects are not followed' : `Answered ${answer.status}`
}
