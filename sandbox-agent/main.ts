import { text } from 'node:stream/consumers'
import { Boot } from '../src/contract/manifest.ts'
import { Agent } from './agent.ts'
import { crashPoint } from './crash-points.ts'
import { log, messageOf } from './log.ts'

// The token comes by standard input: what is in the environment can be read by every process of the same user.
async function main(): Promise<void> {
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
