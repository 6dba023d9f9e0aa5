import { text } from 'node:stream/consumers'
import { HostOptions, startHost } from './host.ts'

// The options come by standard input, because they hold the secret.
const host = await startHost(HostOptions.parse(JSON.parse(await text(process.stdin))))
const limits = Object.fromEntries(host.limits.map(({ name, message }) => [name, message]))
console.log(JSON.stringify({ msg: 'ready', url: host.url, ...limits }))

let closing = false
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (closing) return
    closing = true
    void host.close().finally(() => process.exit(0))
  })
}
