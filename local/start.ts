import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from './binaries.ts'
import type { ControlPlaneKind } from './control-plane.ts'
import { runDemo } from './demo.ts'
import { modelBindings } from './model-bindings.ts'
import { operatorKeyPath } from './operator-key.ts'
import { onParentGone } from './parent.ts'
import { providerBindings } from './provider-bindings.ts'
import { type Stack, startStack } from './stack.ts'

const { values: flags } = parseArgs({
  options: {
    /** Ends after the demo, with its result. */
    demo: { type: 'boolean', default: false },
    'no-demo': { type: 'boolean', default: false },
    host: { type: 'string', default: 'wrangler' },
  },
})
const stateDir = process.env['GANTRY_STATE_DIR'] ?? join(root, '.gantry')
const print = (line = '') => void process.stdout.write(`${line}\n`)
// The terminal may be gone before this process is.
process.stdout.on('error', () => undefined)
process.stderr.on('error', () => undefined)

let stack: Stack | undefined
let ending: Promise<never> | undefined

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => void end(flags.demo ? 130 : 0))
}
onParentGone(() => void end(1))

try {
  await main()
} catch (error) {
  await fail(error)
}

async function main(): Promise<void> {
  const startedAt = Date.now()
  const model = modelBindings(process.env)
  print('Gantry starts')
  const started = await startStack({
    stateDir,
    host: parseHost(flags.host),
    model: model ?? 'scripted',
    env: providerBindings(process.env),
    onDeath: (error) => void fail(error),
    onStep: (what, ms) => print(`  ${what.padEnd(28)} ${String(ms).padStart(6)} ms`),
  })
  stack = started
  if (ending !== undefined) return
  if (!flags.demo) tellPlaces(started, model === null)
  if (!flags['no-demo']) {
    print()
    print(`Demo session${model === null ? ' with the scripted model (no model key is set)' : ''}`)
    await runDemo({
      url: started.url,
      key: started.adminKey,
      scripted: model === null,
      print,
      deadlineMs: model === null ? 90_000 : 300_000,
    })
    print(`Done ${((Date.now() - startedAt) / 1000).toFixed(1)} s after the start`)
  }
  if (flags.demo) await end(0)
  print()
  print('Gantry is running. Ctrl-C stops it.')
}

function tellPlaces(started: Stack, scripted: boolean): void {
  const here = (path: string) => {
    const short = relative(process.cwd(), path)
    return short === '' || short.startsWith('..') ? path : short
  }
  print()
  print(`  API          ${started.url}`)
  print(`  Description  ${started.url}/openapi.json`)
  print(`  Admin key    ${here(started.adminKeyPath)}`)
  print(`  Operator key ${here(operatorKeyPath(started.stateDir))}`)
  print(`  State, logs  ${here(started.stateDir)}`)
  print(`  Sandboxes    ${started.sandboxPlace?.root ?? 'none'}`)
  print(
    `  Model        ${scripted ? 'scripted (set ANTHROPIC_API_KEY for a real one)' : 'as set in the environment'}`,
  )
  print(
    `  Try          curl -H "authorization: Bearer $(cat '${here(started.adminKeyPath)}')" ${started.url}/v1/status`,
  )
  const place = started.sandboxPlace
  if (place === null || place.uids !== undefined) return
  print()
  if (place.warning !== undefined) print(`  Sandboxes get no user of their own: ${place.warning}.`)
  print(
    `  Note: sandboxes run as your own user, so an agent can read ${here(started.stateDir)}, keys included.`,
  )
}

function parseHost(name: string): ControlPlaneKind {
  if (name === 'wrangler' || name === 'workerd' || name === 'deno') return name
  throw new Error(`Cannot use host "${name}": it is wrangler, workerd or deno`)
}

async function fail(error: unknown): Promise<never> {
  if (ending === undefined) {
    console.error(`\n${error instanceof Error ? error.message : String(error)}`)
    if (process.env['GANTRY_DEBUG'] !== undefined) console.error(error)
  }
  return end(1)
}

// Once. A stack that is still starting has no handle yet: its guardian ends it when this process is gone.
function end(code: number): Promise<never> {
  ending ??= (async () => {
    await stack?.stop()
    process.exit(code)
  })()
  return ending
}
