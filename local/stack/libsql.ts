import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from '../binaries.ts'
import { writeDevVars } from './dev-vars.ts'
import { ensureFirstKey } from '../admin/first-key.ts'
import { startGuardian } from './guardian.ts'
import { endStaleLockHolder, lockState } from '../state/lock.ts'
import { applyMigrations } from '../database/migrations.ts'
import { onParentGone } from '../processes/parent.ts'
import { startSqld } from '../database/sqld.ts'
import { choosePorts } from '../state/ports.ts'
import { makePrivateDir } from '../state/private-files.ts'
import { randomText } from '../state/secrets.ts'
import { stateDirOf } from '../state/state-dir.ts'

// `npm run libsql`: what `wrangler dev` alone lacks. A libSQL server with schema, organisation and key for as long as
// this runs, and a .dev.vars that names it.

const { values: flags } = parseArgs({
  options: { 'dev-vars': { type: 'string', default: join(root, '.dev.vars') } },
})
const stateDir = makePrivateDir(
  stateDirOf(process.env['GANTRY_STATE_DIR'], { unset: join('.gantry', 'dev') }),
)
const here = (path: string) => relative(process.cwd(), path) || path

const endings: (() => Promise<void> | void)[] = []
let ending: Promise<never> | undefined
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(0))
onParentGone(() => void end(1))

try {
  await main()
} catch (error) {
  console.error((error as Error).message)
  await end(1)
}

async function main(): Promise<void> {
  const held = lockState(stateDir)
  endings.push(() => held.giveUp())
  if (held.left !== undefined) await endStaleLockHolder(held.left, stateDir)
  const { libsql: port } = await choosePorts(stateDir, ['libsql'])
  const mark = `stk_${randomText(20, '0123456789abcdefghijklmnopqrstuvwxyz')}`
  held.describe({ url: `http://127.0.0.1:${port}`, mark })
  endings.splice(0, 1, () => held.release())
  endings.push(startGuardian(mark).stop)
  const onDeath = (error: Error) => {
    if (ending === undefined) console.error(error.message)
    void end(1)
  }
  const sqld = await startSqld({ stateDir, port, mark, onDeath })
  endings.push(sqld.stop)
  await applyMigrations(sqld.url, sqld.token)
  const key = await ensureFirstKey(stateDir, sqld.url, sqld.token)
  const path = resolve(flags['dev-vars'])
  const isWritten = writeDevVars(path, sqld)
  console.log(`libSQL     ${sqld.url}`)
  console.log(
    isWritten
      ? `Variables  ${here(path)}`
      : `Variables  ${here(path)} names another database and was left alone`,
  )
  console.log(`Admin key  ${here(key.path)}`)
  console.log('libSQL is running: "npm run dev" in another terminal. Ctrl-C stops it.')
}

function end(code: number): Promise<never> {
  ending ??= (async () => {
    for (const stop of endings.splice(0).toReversed()) await stop()
    process.exit(code)
  })()
  return ending
}
