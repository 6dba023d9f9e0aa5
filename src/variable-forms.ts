import { z } from 'zod'
import { bytesFromBase64 } from './adapters/base64.ts'
import type { SecretKey } from './adapters/secret-key.ts'
import { Firewall } from './contract/limits.ts'

// What the texts of variables are parsed with. No message has a value in it: most of them are secret.

export const url = (protocols: RegExp) =>
  z
    .url({ protocol: protocols, error: 'Must be a URL' })
    .transform((text) => text.replace(/\/+$/, ''))
export const httpUrl = url(/^https?$/)
export const whole = (least: number, unset: number) =>
  z.coerce.number({ error: 'Must be a number' }).int().min(least).default(unset)
export const atLeast = (length: number) =>
  z
    .string()
    .min(length, { error: `Must have at least ${length} characters` })
    .optional()
export const secretBytes = (least: number) =>
  z.string().transform((text, context) => {
    const bytes = decode(text)
    if (bytes && bytes.length >= least) return bytes
    context.addIssue({ code: 'custom', message: `Must be base64 of at least ${least} bytes` })
    return z.NEVER
  })

/** `kid:base64[,kid:base64]` */
export const secretKeys = (fits: (bytes: number) => boolean, wanted: string) =>
  z.string().transform((text, context) => {
    const keys: SecretKey[] = []
    for (const part of text.split(',')) {
      const [, id, body] = /^\s*([A-Za-z0-9_-]{1,32}):(\S+)\s*$/.exec(part) ?? []
      const secret = decode(body ?? '')
      if (id === undefined || !secret || !fits(secret.length) || keys.some((k) => k.id === id)) {
        context.addIssue({
          code: 'custom',
          message: `Must be "kid:base64[,kid:base64]" with distinct key ids and ${wanted} each`,
        })
        return z.NEVER
      }
      keys.push({ id, secret })
    }
    return keys
  })

export const localRepositories = z.string().transform((text, context) => {
  const entries = text.split(',').map((entry) => entry.trim())
  if (entries.every((entry) => /^(\/|file:\/\/\/|ssh:\/\/[^/]+\/)/.test(entry))) return entries
  const message = 'Must be absolute paths and ssh:// URLs, separated by commas'
  context.addIssue({ code: 'custom', message })
  return z.NEVER
})

export const firewall = z.string().transform((text, context) => {
  const parsed = Firewall.safeParse(decodeJson(text))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue?.path.length ? `, wrong at "${issue.path.join('.')}"` : ''
  context.addIssue({ code: 'custom', message: `Must be a JSON object of limits${where}` })
  return z.NEVER
})

function decode(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return bytesFromBase64(text)
  } catch {
    return null
  }
}

function decodeJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
