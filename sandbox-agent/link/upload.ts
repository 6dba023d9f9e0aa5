// Sends one file to the control plane, which stores it by its SHA-256. Because of that, sending the same bytes twice is
// harmless, and a failed upload is tried again. `collect` and the executor call it; evidence of a turn is sent by it.

import { createHash } from 'node:crypto'
import { extname } from 'node:path'
import { type CollectedFile, UploadAnswer } from '../../src/contract/artifact.ts'
import { messageOf, sleep } from '../log.ts'

export interface UploadOptions {
  url: string
  token: () => string
  maxTries?: number
  firstBackoffMs?: number
}

export async function uploadFile(
  upload: UploadOptions,
  path: string,
  content: Buffer,
  contentType = contentTypes[extname(path).toLowerCase()] ?? 'application/octet-stream',
): Promise<CollectedFile> {
  const sha256 = createHash('sha256').update(content).digest('hex')
  await uploadOnce(upload, path, content, contentType, sha256)
  return { path, size: content.length, sha256, contentType }
}

async function uploadOnce(
  options: UploadOptions,
  path: string,
  content: Buffer,
  contentType: string,
  sha256: string,
): Promise<void> {
  const request = { method: 'PUT', contentType, body: new Uint8Array(content) }
  checkAnswer(await send(options, `upload "${path}"`, request), sha256)
}

/** A text that its address names: sent twice it is taken once. */
export async function uploadText(options: UploadOptions, body: string): Promise<void> {
  await send(options, 'send it', { method: 'PUT', contentType: 'application/json', body })
}

interface Sending {
  method: string
  contentType: string
  body: string | Uint8Array<ArrayBuffer>
}

async function send(
  options: UploadOptions,
  what: string,
  { method, contentType, body }: Sending,
): Promise<string> {
  const { maxTries = 5, firstBackoffMs = 500 } = options
  let reason = ''
  for (let tries = 0; tries < maxTries; tries += 1) {
    if (tries > 0) await sleep(firstBackoffMs * 2 ** (tries - 1))
    try {
      const response = await fetch(options.url, {
        method,
        headers: { 'content-type': contentType, authorization: `Bearer ${options.token()}` },
        body,
        redirect: 'error',
        signal: AbortSignal.timeout(60_000),
      })
      const text = await response.text()
      if (response.ok) return text
      reason = `${response.status} ${text.slice(0, 200)}`
      if (response.status < 500 && response.status !== 429) break
    } catch (error) {
      reason = messageOf(error)
    }
  }
  throw new Error(`Cannot ${what}: ${reason}`)
}

function checkAnswer(text: string, sha256: string): void {
  const answer = UploadAnswer.parse(JSON.parse(text))
  if (answer.sha256 !== sha256)
    throw new Error('Cannot upload: the control plane received other bytes')
}

const contentTypes: Record<string, string> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.svg': 'image/svg+xml',
  '.pdf': 'application/pdf',
  '.json': 'application/json',
  '.xml': 'application/xml',
  '.html': 'text/html',
  '.csv': 'text/csv',
  '.md': 'text/markdown',
  '.txt': 'text/plain',
  '.log': 'text/plain',
  '.mp4': 'video/mp4',
  '.webm': 'video/webm',
  '.zip': 'application/zip',
}
