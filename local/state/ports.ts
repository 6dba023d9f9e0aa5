import { randomInt } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { writePrivateFile } from './private-files.ts'

/** Ports of this checkout: kept while they are free, so that addresses in scripts and tabs stay good. */
export async function choosePorts<N extends string>(
  stateDir: string,
  names: readonly N[],
): Promise<Record<N, number>> {
  const path = join(stateDir, 'ports.json')
  const known = existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as Record<string, number>)
    : {}
  const ports = { ...known } as Record<N, number>
  const chosen = new Set<number>()
  for (const name of names) {
    const kept = known[name]
    ports[name] = await freePort(kept !== undefined && chosen.has(kept) ? undefined : kept)
    chosen.add(ports[name])
  }
  writePrivateFile(path, `${JSON.stringify(ports)}\n`)
  return ports
}

/**
 * A port that nothing listens on: `wanted` if it is given and free. Another is taken from below the range that the kernel
 * gives to outgoing connections and to listeners on port 0, because one of those could take it before its user listens.
 * It is drawn at random, so that two processes that look at the same time do not find the same one, and what one process
 * has given it does not draw again.
 */
export async function freePort(wanted?: number): Promise<number> {
  if (wanted !== undefined && (await isPortFree(wanted))) {
    given.add(wanted)
    return wanted
  }
  for (let tries = 0; tries < maxTries; tries++) {
    const port = randomInt(portRange.from, portRange.to)
    if (given.has(port)) continue
    given.add(port)
    if (await isPortFree(port)) return port
  }
  throw new Error(`No free port from ${portRange.from} to ${portRange.to}: end what listens there`)
}

const portRange = { from: 15_000, to: 32_000 }
const maxTries = 1000
const given = new Set<number>()

/** Whether nothing listens there now. */
export function isPortFree(port: number): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
