import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { buildAgent } from '../build/agent.ts'
import { buildWorker } from '../build/worker.ts'
import { binary, root } from '../local/binaries.ts'

/** Bundles as they are shipped: minified. */
export async function measureSizes(): Promise<{ name: string; bytes: number; limit: number }[]> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-bench-'))
  try {
    const worker = join(folder, 'worker.mjs')
    const agent = join(folder, 'agent.mjs')
    await buildWorker(join(root, 'src', 'worker.ts'), worker, { minify: true })
    await buildAgent(agent)
    return [
      { name: 'Worker bundle, gzip', bytes: gzipSync(readFileSync(worker)).length, limit: 600_000 },
      { name: 'agent bundle', bytes: readFileSync(agent).length, limit: 260_000 },
    ]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Resident memory of a bare Node that has used fetch and WebSocket, as the agent does. */
export async function bareNodeRss(url: string): Promise<number> {
  const script = `await (await fetch(${JSON.stringify(`${url}/healthz`)})).text()
    new WebSocket(${JSON.stringify(url.replace('http', 'ws'))}).onerror = () => {}
    setTimeout(() => console.log('up'), 1500); setInterval(() => {}, 1000)`
  const child = spawn(binary('node'), ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  const bytes = rssOf(child.pid as number)
  child.kill()
  return bytes
}

export function rssOf(pid: number): number {
  return Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)]).toString()) * 1024
}
