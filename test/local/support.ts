import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { sleep } from '../../local/processes/processes.ts'

/** Removed after the test. */
export function tempDir(): string {
  const path = mkdtempSync(join(tmpdir(), 'gantry-test-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

export function tempFile(name: string, content: string): string {
  const path = join(tempDir(), name)
  writeFileSync(path, content)
  return path
}

/** Polls until the value is truthy. */
export async function until<T>(look: () => T | Promise<T>, ms = 8000): Promise<NonNullable<T>> {
  const startedAt = Date.now()
  for (;;) {
    const value = await look()
    if (value) return value
    // A busy machine gets more.
    if (Date.now() - startedAt > Math.max(ms * 4, 120_000))
      throw new Error(`Not within ${ms} ms: ${look.toString()}`)
    await sleep(20)
  }
}
