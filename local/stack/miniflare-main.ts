import { dirname } from 'node:path'
import { text } from 'node:stream/consumers'
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare'

/** What Miniflare is asked to serve. Comes by standard input, because the bindings hold secrets. */
export interface MiniflareTask {
  /** As in wrangler.toml: storage is kept under the Worker's name. */
  name: string
  /** The bundle. */
  script: string
  compatibilityDate: string
  port: number
  /** The folder that `wrangler dev` would use, so that either goes on where the other stopped. */
  persistTo: string
  objects: Record<string, string>
  bindings: Record<string, string>
}

const task = JSON.parse(await text(process.stdin)) as MiniflareTask
const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    host: '127.0.0.1',
    port: task.port,
    resourcePersistencePath: task.persistTo,
    log: new Log(LogLevel.WARN),
    logRequests: false,
    // Nothing is fetched from or sent to anywhere.
    cf: false,
    telemetry: { enabled: false },
    // Would let anyone on this machine read and change every object's storage, without a key.
    unsafeLocalExplorer: false,
    unsafeObservability: false,
    // Miniflare would start it again without a word; the stack is to say that it died, and where its log is.
    unsafeHandleRuntimeRestart: () => {
      console.error('The runtime (workerd) has ended')
      process.exit(1)
    },
    workers: [
      {
        name: task.name,
        modules: true,
        scriptPath: task.script,
        modulesRoot: dirname(task.script),
        compatibilityDate: task.compatibilityDate,
        durableObjects: Object.fromEntries(
          Object.entries(task.objects).map(([binding, className]) => [
            binding,
            { className, useSQLite: true },
          ]),
        ),
        bindings: task.bindings,
      },
    ],
  }),
)

let closing = false
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (closing) return
    closing = true
    void miniflare.dispose().finally(() => process.exit(0))
  })
}
await miniflare.ready
