import type { ChildProcess } from 'node:child_process'
import { Manifest } from '../src/contract/manifest.ts'
import type { SandboxSpec } from '../src/core/ports.ts'

/** The agent needs no helper threads. It does without more by itself: see sandbox-agent/lean.ts. */
export const leanNode = ['--max-semi-space-size=1', '--single-threaded-gc', '--v8-pool-size=0']

const fetchMs = 2000

/** Asked while the agent's process starts, so that OpenCode does not wait for it. undefined: the agent asks itself. */
export async function fetchManifest(
  { gatewayUrl, sessionId, token }: SandboxSpec,
  signal: AbortSignal,
): Promise<Manifest | undefined> {
  try {
    const response = await fetch(`${gatewayUrl}/sandbox/${sessionId}/manifest`, {
      headers: { authorization: `Bearer ${token}` },
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(fetchMs)]),
    })
    return response.ok ? Manifest.parse(await response.json()) : undefined
  } catch {
    return undefined
  }
}

export function saysReady(line: string): boolean {
  if (!line.includes('"ready"')) return false
  try {
    const { msg, message } = JSON.parse(line) as { msg?: unknown; message?: unknown }
    return (msg ?? message) === 'ready'
  } catch {
    return false
  }
}

export const exitOf = (child: ChildProcess) =>
  new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, signal) =>
      resolve(signal === null ? `exit code ${code}` : `signal ${signal}`),
    )
  })
