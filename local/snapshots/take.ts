// Takes one snapshot: it copies workspace and home while the sandbox stands still, then scrubs the copy and searches it
// for secrets while the sandbox works on. A copy that is too large or holds a known secret is refused. It runs in the
// child process of taker.ts.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createRedactor, type KnownSecret } from '../../src/core/redaction/redaction.ts'
import { freeze } from '../processes/freeze.ts'
import type { Wanted } from '../processes/processes.ts'
import { Refusal } from './refusal.ts'
import { packWalls } from './pack-walls.ts'
import { searchSecret } from './secret-search.ts'
import { copyPortions, planCopy, copySize } from './copy.ts'
import { scrubCopy } from './scrub.ts'

export interface TakeOrder {
  /** The sandbox's folder. */
  sandbox: string
  /** Does not exist yet: the snapshot is made in it, beside what is needed on the way. */
  target: string
  uid: number | undefined
  wanted: Wanted
  secrets: KnownSecret[]
  generatedFiles: string[]
  limits: TakeLimits
}
export interface TakeLimits {
  maxBytes: number
  /** How long the sandbox may stand still. */
  copyMs: number
  searchMs: number
}

/** Where in the target the snapshot itself is. */
export const contentFolder = 'content'

/** Returns the size in bytes. */
export async function takeSnapshot(order: TakeOrder, signal: AbortSignal): Promise<number> {
  try {
    return await take(order, signal)
  } catch (error) {
    // It may name a file, and a file's name may hold a value.
    const text = (error as Error).message.replaceAll(`${order.sandbox}/`, '')
    const clean = createRedactor(order.secrets).redactText(text)
    throw error instanceof Refusal ? new Refusal(error.code, clean) : new Error(clean)
  }
}

async function take(order: TakeOrder, signal: AbortSignal): Promise<number> {
  const content = join(order.target, contentFolder)
  const scratch = join(order.target, 'scratch')
  for (const path of [content, scratch]) mkdirSync(path, { recursive: true, mode: 0o700 })
  const limits = { signal, timeoutMs: order.limits.copyMs }
  // Before the sandbox stands still for something that will be refused.
  checkSize(await copySize(planCopy(order.sandbox, content), limits), order)
  const thaw = await stand(order)
  try {
    await copyPortions(planCopy(order.sandbox, content), limits)
  } finally {
    thaw()
  }
  const bytes = scrubCopy(content, order)
  checkSize(bytes, order)
  await checkSecrets(content, scratch, order, signal)
  return bytes
}

async function stand({ wanted }: TakeOrder): Promise<() => void> {
  try {
    return await freeze(wanted)
  } catch (error) {
    throw new Refusal(
      'sandbox_unavailable',
      `Cannot take the snapshot: ${(error as Error).message}`,
    )
  }
}

function checkSize(bytes: number, { limits: { maxBytes } }: TakeOrder): void {
  if (bytes <= maxBytes) return
  const mebibytes = (count: number) => `${Math.ceil(count / 1024 / 1024)} MiB`
  throw new Refusal(
    'too_large',
    `Cannot take the snapshot: ${mebibytes(bytes)} are more than the limit of ${mebibytes(maxBytes)}. Remove what is not needed`,
  )
}

async function checkSecrets(
  content: string,
  scratch: string,
  { secrets, uid, limits: { searchMs } }: TakeOrder,
  signal: AbortSignal,
): Promise<void> {
  const late = AbortSignal.timeout(searchMs)
  const walls = packWalls(content, scratch, uid)
  const either = AbortSignal.any([signal, late])
  const seen = join(scratch, 'work')
  const hit = await searchSecret(content, secrets, seen, either, walls.line)
    .catch((error: unknown) => {
      if (!late.aborted || signal.aborted) throw error
      throw new Refusal(
        'unprocessable',
        `Cannot take the snapshot: searching it for secrets takes more than ${searchMs / 1000} s. Remove what is not needed`,
      )
    })
    .finally(walls.close)
  if (hit === null) return
  throw new Refusal(
    'unprocessable',
    `Secret "${hit.name}" is in the file "${hit.file}": the snapshot is refused. Move the value out of it, then try again`,
  )
}
