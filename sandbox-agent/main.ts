import { text } from 'node:stream/consumers'
import { setFlagsFromString } from 'node:v8'
import { Boot } from '../src/contract/manifest.ts'
import { Agent } from './agent.ts'
import { crashPoint } from './crash-points.ts'
import { log, messageOf } from './log.ts'

/**
 * The agent mostly waits and passes bytes on: without the compilers it is a fifth smaller. On the command line these
 * flags would make Node compile its own modules anew at each start, instead of taking them from its cache.
 */
const leanFlags = [
  '--no-opt',
  '--no-maglev',
  '--no-sparkplug',
  // fetch parses HTTP in WebAssembly: compiling that again, for speed, costs 13 MB.
  '--no-wasm-tier-up',
  '--no-wasm-dynamic-tiering',
]

// The token comes by standard input: what is in the environment can be read by every process of the same user.
async function main(): Promise<void> {
  for (const flag of leanFlags) setFlagsFromString(flag)
  // Only looked for: to touch it would load it, before OpenCode is started.
  if (!('WebSocket' in globalThis)) {
    throw new Error(
      `Node ${process.versions.node} has no WebSocket: the agent needs Node 22 or newer`,
    )
  }
  const boot = Boot.parse(JSON.parse(await text(process.stdin)))
  await crashPoint('boot.read')
  const agent = new Agent(boot, (code) => process.exit(code))
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => void agent.stop(`received ${signal}`))
  }
  await agent.run()
}

process.on('unhandledRejection', (error) => log('unhandled', { reason: messageOf(error) }))
main().catch((error: unknown) => {
  log('cannot start', { reason: messageOf(error) })
  process.exitCode = 1
})
