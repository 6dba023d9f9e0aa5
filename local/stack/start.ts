// `npm start` and `npm run demo`: starts the stack, shows the demo the first time, and ends in order. The first Ctrl-C
// saves the open sessions and stops; a second one skips the saving. `demo` uses a state folder of its own and ends with
// the demo's result as exit code.

import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { type ControlPlaneKind, controlPlaneKinds } from './control-plane.ts'
import { runDemo } from './demo.ts'
import { runEvalDemo } from './eval-demo.ts'
import { operatorKeyPath } from '../admin/operator-key.ts'
import { onParentGone } from '../processes/parent.ts'
import { stateDirOf } from '../state/state-dir.ts'
import { modelEnvironment, passedEnvironment } from './environment.ts'
import { type Stack, startStack } from './stack.ts'
import { EnclosureMode } from '../../src/contract/enclosure.ts'
import { terminalAsk, unwalledBindings } from './unwalled.ts'
import { findWalls, wallsCheck } from '../users/walls.ts'

const { values: flags } = parseArgs({
  options: {
    /**
     * Shows the demo in a state folder of its own, whatever policies and limits are stored here, and ends with its
     * result.
     */
    demo: { type: 'boolean', default: false },
    'no-demo': { type: 'boolean', default: false },
    host: { type: 'string', default: 'miniflare' },
  },
})
const stateDir = join(
  stateDirOf(process.env['GANTRY_STATE_DIR'], { host: flags.host }),
  flags.demo ? 'demo' : '',
)
const print = (line = '') => void process.stdout.write(`${line}\n`)
// The terminal may be gone before this process is.
process.stdout.on('error', () => undefined)
process.stderr.on('error', () => undefined)

let stack: Stack | undefined
let ending: Promise<never> | undefined

/** Ends the saving of what is open. */
const skip = new AbortController()
/**
 * A terminal, npm and the launcher pass one Ctrl-C on, each for itself: what comes within this time is the same one.
 */
const sameSignalMs = 1000
let signalledAt: number | undefined

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    signalledAt ??= Date.now()
    if (Date.now() - signalledAt > sameSignalMs) skip.abort()
    void end(flags.demo ? 130 : 0, 'save')
  })
}
onParentGone(() => void end(1, 'save'))

try {
  await main()
} catch (error) {
  await fail(error)
}

async function main(): Promise<void> {
  const startedAt = Date.now()
  const model = modelEnvironment(process.env)
  print('Gantry starts')
  const started = await startStack({
    stateDir,
    host: parseHost(flags.host),
    model: model ?? 'scripted',
    // Said here, and nowhere by default: this stack reads OpenCode's own snapshots as they are.
    env: { OPENCODE_SNAPSHOT_PROOF_UPGRADE: 'full', ...passedEnvironment(process.env) },
    siteBindings: async (site) =>
      unwalledBindings(await findWalls(site, enclosureMode()), {
        ...{ stateDir, environment: process.env, isDemo: flags.demo, ask: terminalAsk(), print },
      }),
    onDeath: (error) => void fail(error),
    onProgress: (what, ms) => print(`  ${what.padEnd(28)} ${String(ms).padStart(6)} ms`),
  })
  stack = started
  if (ending !== undefined) return
  if (!flags.demo) await tellPlaces(started, model === null)
  if (flags.demo) {
    await showDemo(started, model === null, startedAt)
    await end(0)
  }
  if (started.isFirst && !flags['no-demo'])
    await showDemo(started, model === null, startedAt).catch(tellFailedDemo)
  if (ending !== undefined) return
  print()
  print('Gantry is running. Ctrl-C stops it.')
}

async function showDemo(started: Stack, scripted: boolean, startedAt: number): Promise<void> {
  print()
  print(`Demo session${scripted ? ' with the scripted model (no model key is set)' : ''}`)
  await runDemo({
    url: started.url,
    key: started.adminKey,
    scripted,
    print,
    deadlineMs: scripted ? 90_000 : 300_000,
  })
  await runEvalDemo({ url: started.url, key: started.adminKey, print })
  print(`Done ${((Date.now() - startedAt) / 1000).toFixed(1)} s after the start`)
}

/** A demo that fails, for want of a network to the model for example, is no reason to end what people work with. */
function tellFailedDemo(error: unknown): void {
  if (ending !== undefined) return
  print()
  print(`The demo did not finish: ${error instanceof Error ? error.message : String(error)}`)
  print('Gantry runs all the same. "npm run demo" shows the demo again.')
}

async function tellPlaces(started: Stack, scripted: boolean): Promise<void> {
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
  print(`  Sandboxes    ${started.sandboxSite?.root ?? 'none'}`)
  const walls = started.sandboxSite && (await findWalls(started.sandboxSite, enclosureMode()))
  if (walls !== null) print(`  Enclosure    ${wallsCheck(walls).message}`)
  print(
    `  Model        ${scripted ? 'scripted (set ANTHROPIC_API_KEY for a real one)' : 'as set in the environment'}`,
  )
  print(
    `  Try          curl -H "authorization: Bearer $(cat '${here(started.adminKeyPath)}')" ${started.url}/v1/status`,
  )
  const site = started.sandboxSite
  if (site === null || walls === null || walls.level === 'full') return
  print()
  if (site.warning !== undefined) print(`  Sandboxes get no user of their own: ${site.warning}.`)
  if (site.uids === undefined)
    print(
      `  Note: sandboxes run as your own user, so an agent can read ${here(started.stateDir)}, keys included.`,
    )
  print(`  To give them an enclosure: ${wallsCheck(walls).hint}.`)
}

function enclosureMode(): EnclosureMode {
  return EnclosureMode.catch('auto').parse(process.env['GANTRY_ENCLOSURE'])
}

function parseHost(name: string): ControlPlaneKind {
  const kind = controlPlaneKinds.find((each) => each === name)
  if (kind !== undefined) return kind
  throw new Error(`Cannot use host "${name}": it is ${controlPlaneKinds.join(', ')}`)
}

async function fail(error: unknown): Promise<never> {
  if (ending === undefined) {
    console.error(`\n${error instanceof Error ? error.message : String(error)}`)
    if (process.env['GANTRY_DEBUG'] !== undefined) console.error(error)
  }
  return end(1)
}

// Ends once. A stack that is still starting cannot be stopped from here: its guardian ends it when this process is
// gone.
function end(code: number, how?: 'save'): Promise<never> {
  ending ??= (async () => {
    if (how === 'save' && stack !== undefined && !flags.demo) await save(stack)
    await (flags.demo ? stack?.erase() : stack?.stop())
    process.exit(code)
  })()
  return ending
}

/** Open sessions go on after the next start; those that are not saved go on from the files that stay. */
async function save(started: Stack): Promise<void> {
  let before = 0
  const isSaved = await started.save((left) => {
    if (left > 0 && left !== before)
      print(`Saving ${left === 1 ? '1 session' : `${left} sessions`} … (Ctrl-C again skips this)`)
    before = left
  }, skip.signal)
  if (before > 0 || !isSaved)
    print(`Not everything is saved: the next start goes on from the files as they are`)
}
