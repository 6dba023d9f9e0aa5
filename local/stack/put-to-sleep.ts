import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxesLeft } from '../../src/contract/shutdown.ts'

/** All of it: a stop must not take for ever. */
const withinMs = 60_000
const everyMs = 300

/** Asks the control plane until no sandbox is left. False: skipped, too late, or it cannot be asked. */
export async function putToSleep(
  url: string,
  operatorKey: string,
  onLeft: (left: number) => void,
  skip: AbortSignal,
): Promise<boolean> {
  const signal = AbortSignal.any([skip, AbortSignal.timeout(withinMs)])
  try {
    for (;;) {
      const response = await fetch(`${url}/v1/deployment/sleep`, {
        method: 'POST',
        headers: { authorization: `Bearer ${operatorKey}` },
        signal,
      })
      if (!response.ok) return false
      const { left } = SandboxesLeft.parse(await response.json())
      onLeft(left)
      if (left === 0) return true
      await sleep(everyMs, undefined, { signal })
    }
  } catch {
    return false
  }
}
