import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { buildAgent } from '../build/agent.ts'
import { buildWorker } from '../build/worker.ts'
import { binary, root } from '../local/binaries.ts'
import type { Row } from './table.ts'

/** What `npm install` made of release 0.2.0's list when it was written: it may grow by a twentieth. */
const installedMb = 1377

/** Bundles as they are shipped: minified. And what an installation takes. */
export async function measureSizes(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-bench-'))
  try {
    const worker = join(folder, 'worker.mjs')
    const agent = join(folder, 'agent.mjs')
    await buildWorker(join(root, 'src', 'worker.ts'), worker, { minify: true })
    await buildAgent(agent)
    return [
      sizeRow('Worker bundle, gzip', gzipSync(readFileSync(worker)).length, 600),
      sizeRow('agent bundle', readFileSync(agent).length, 260),
      {
        measure: 'installed size / when the list was made',
        ours: sizeOf(join(root, 'node_modules')) / 1e6,
        base: installedMb,
        unit: 'MB',
        aim: { most: 1.05 },
      },
    ]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const sizeRow = (measure: string, bytes: number, mostKb: number): Row => ({
  measure,
  ours: bytes / 1000,
  unit: 'KB',
  aim: { most: mostKb },
})

/** Each file once, however many names it has. */
const sizeOf = (folder: string) =>
  Number(execFileSync('du', ['-skL', folder]).toString().split('\t')[0]) * 1024

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
