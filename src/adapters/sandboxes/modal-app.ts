// Calls Gantry's own app at Modal (sandbox-agent/modal), because Modal's protocol cannot be spoken with `fetch`. Each
// request is signed, and a failure says whether it may be tried again or a person must act (`ModalTrouble`). modal.ts
// calls it.

import type { z } from 'zod'
import { AppError, ErrorBody } from '../../contract/error.ts'
import { type ImportedKey, importSecretKeyOnce } from '../secret-key.ts'

interface ModalAppOptions {
  /** Of the deployed app, such as `https://acme--gantry-web.modal.run`. */
  url: string
  /** The same as in the app's secret. */
  secret: string
}

type ModalCall =
  | 'create'
  | 'get'
  | 'list'
  | 'extend'
  | 'stop'
  | 'snapshot'
  | 'delete-snapshot'
  | 'check'

/** A failure that a person must put right. */
export class ModalTrouble extends AppError {
  readonly hint: string
  constructor(message: string, hint: string) {
    super('sandbox_unavailable', `${message}. ${hint}`)
    this.hint = hint
  }
}

export type ModalApp = ReturnType<typeof createModalApp>

export function createModalApp({ url, secret }: ModalAppOptions) {
  const keyOf = importSecretKeyOnce([{ id: 'app', secret: utf8(secret) }], importKey)
  const origin = url.replace(/\/+$/, '')

  return async <T>(
    call: ModalCall,
    body: object,
    answer: z.ZodType<T>,
    timeoutMs: number,
  ): Promise<T> => {
    const response = await send(call, JSON.stringify(body), timeoutMs)
    const text = await response.text().catch((error: unknown) => {
      throw unavailable(`Cannot read the answer of the Modal app: ${(error as Error).message}`)
    })
    if (!response.ok) throw failureOf(response.status, text)
    const parsed = answer.safeParse(parseJson(text))
    if (parsed.success) return parsed.data
    throw new ModalTrouble('The Modal app answers in another way than expected', deploy)
  }

  async function send(call: ModalCall, body: string, timeoutMs: number): Promise<Response> {
    const path = `/v1/${call}`
    const key = await keyOf('app')
    if (key === null) throw new Error('Cannot sign: there is no key')
    const headers = await modalAppHeaders(key, 'POST', path, body)
    try {
      return await fetch(`${origin}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body,
        // After 150 s Modal sends the caller elsewhere to wait. Asking again joins, too.
        redirect: 'manual',
        signal: AbortSignal.timeout(timeoutMs),
      })
    } catch (error) {
      throw unavailable(`Cannot reach the Modal app: ${(error as Error).message}`)
    }
  }
}

/** What the app verifies: time, a number used once, and the HMAC over them and the request. */
export async function modalAppHeaders(
  key: ImportedKey,
  method: string,
  path: string,
  body: string,
  at: string = String(Math.floor(Date.now() / 1000)),
  nonce: string = hex(crypto.getRandomValues(new Uint8Array(16))),
): Promise<Record<string, string>> {
  const digest = hex(await crypto.subtle.digest('SHA-256', utf8(body)))
  const text = ['gantry-modal-1', method, path, digest, at, nonce].join('\n')
  const signature = hex(await crypto.subtle.sign('HMAC', key, utf8(text)))
  return { 'x-gantry-time': at, 'x-gantry-nonce': nonce, 'x-gantry-signature': signature }
}

export const importKey = (secret: Uint8Array<ArrayBuffer>): Promise<ImportedKey> =>
  crypto.subtle.importKey('raw', secret, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])

const utf8 = (text: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(new TextEncoder().encode(text))
const hex = (bytes: ArrayBuffer | Uint8Array) =>
  [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('')

const deploy = 'Deploy the app of this version, as sandbox-agent/modal/README.md says'
const passedOn = new Set(['not_found', 'wrong_state', 'too_large', 'unprocessable'])

/** Only what the app itself says of a sandbox is believed: Modal answers 404 also for an app that is not deployed. */
function failureOf(status: number, text: string): AppError {
  const parsed = ErrorBody.safeParse(parseJson(text))
  if (parsed.success) {
    const { code, message } = parsed.data.error
    if (passedOn.has(code)) return new AppError(code, message)
    if (code === 'unauthenticated')
      return new ModalTrouble(
        `The Modal app refuses us: ${message}`,
        'Give both the same GANTRY_MODAL_SECRET',
      )
    if (code === 'invalid_request')
      return new ModalTrouble(`The Modal app does not understand us: ${message}`, deploy)
    return unavailable(`The Modal app answered ${status}: ${message}`)
  }
  if (status === 404)
    return new ModalTrouble('There is no app of Gantry at the address of the Modal app', deploy)
  if (status >= 300 && status < 400)
    return unavailable('The Modal app takes longer than Modal waits for it')
  return unavailable(`Modal answered ${status}: ${text.slice(0, 300)}`)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const unavailable = (message: string) => new AppError('sandbox_unavailable', message)
