import { text } from 'node:stream/consumers'
import { unstable_startWorker } from 'wrangler'
import { childProcesses, processCommand, processStartTime } from '../processes/processes.ts'

/** What `wrangler dev` is asked to serve. Comes by standard input, because the bindings hold secrets. */
export interface WranglerTask {
  config: string
  entry: string
  port: number
  persistTo: string
  bindings: Record<string, string>
}

// `wrangler dev` through its own API: the command line can neither leave the inspector's port closed nor take
// secrets from anywhere but a file.
const task = JSON.parse(await text(process.stdin)) as WranglerTask
const worker = await unstable_startWorker({
  config: task.config,
  entrypoint: task.entry,
  envFiles: [],
  bindings: Object.fromEntries(
    Object.entries(task.bindings).map(([name, value]) => [name, { type: 'secret_text', value }]),
  ),
  dev: {
    server: { hostname: '127.0.0.1', port: task.port },
    inspector: false,
    remote: false,
    liveReload: false,
    watch: false,
    persist: task.persistTo,
  },
})

let closing = false

// wrangler goes on without its runtime, and then answers nobody.
const runtimes = new Set<number>()
setInterval(() => {
  for (const pid of childProcesses(process.pid))
    if (processCommand(pid).endsWith('workerd')) runtimes.add(pid)
  if (closing || [...runtimes].every((pid) => processStartTime(pid) !== undefined)) return
  console.error('The runtime (workerd) has ended')
  process.exit(1)
}, 500)

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (closing) return
    closing = true
    void worker.dispose().finally(() => process.exit(0))
  })
}
