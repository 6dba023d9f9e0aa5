import { execFileSync, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { binary } from '../../../local/binaries.ts'
import { killMarked } from '../../../sandbox-agent/marked-processes.ts'
import { isRoot } from '../../support/needs.ts'
import type { Order, Outcome } from './enclosed-main.ts'

const main = new URL('enclosed-main.ts', import.meta.url).pathname
/** Of the sandbox, and of the ordinary user. */
export const uid = randomInt(40_000, 60_000)

export type Kind = 'root' | 'an ordinary user'
export const kinds: Kind[] = isRoot ? ['root', 'an ordinary user'] : ['an ordinary user']

/** The folders of one sandbox, with a neighbour and secrets around it. */
export function makePlace(kind: Kind) {
  const root = mkdtempSync(join(tmpdir(), 'gantry-walls-'))
  chmodSync(root, 0o755)
  const box = join(root, 'sandboxes', 'one')
  const folders = ['home', 'workspace', 'config', 'tmp', 'agent'].map((name) => join(box, name))
  for (const folder of [...folders, join(root, 'sandboxes', 'two')])
    mkdirSync(folder, { recursive: true })
  const files = ['admin-key', 'sandboxes/one/agent/token', 'sandboxes/two/file']
  for (const file of files) writeFileSync(join(root, file), 'TOP SECRET\n', { mode: 0o644 })
  writeFileSync(join(box, 'config', 'plugin.mjs'), 'the gate\n')
  // The contract's place of the plugin, which is the sandbox's to write outside of an enclosure.
  const contract = join(box, 'home/.config/opencode')
  for (const folder of [join(box, 'config'), contract])
    mkdirSync(join(folder, 'plugin'), { recursive: true })
  writeFileSync(join(box, 'config/plugin/proliferate.mjs'), 'the loaded plugin\n')
  writeFileSync(join(contract, 'plugin/proliferate.mjs'), 'a copy\n')
  for (const folder of [join(box, 'config'), contract])
    writeFileSync(
      join(folder, 'opencode.json'),
      JSON.stringify({ plugin: [join(box, 'config/plugin/proliferate.mjs')] }),
    )
  const owner = kind === 'root' ? { uid, gid: uid } : undefined
  // The ordinary user owns everything, as where the stack is not root.
  const own = isRoot ? [root, join(root, 'sandboxes'), box, ...folders] : []
  const given = kind === 'root' ? folders.filter((path) => !/config|agent$/.test(path)) : own
  for (const folder of isRoot ? given : []) chownSync(folder, uid, uid)
  if (isRoot) execFileSync('chown', ['-R', `${uid}:${uid}`, join(box, 'home')])
  const mark = `walls.${randomInt(1e9)}`
  const order: Omit<Order, 'script'> = {
    boot: { stateDir: join(box, 'agent'), opencode: binary('opencode'), hidden: [root] },
    manifest: {
      layout: {
        home: join(box, 'home'),
        workspace: join(box, 'workspace'),
        configDir: join(box, 'config'),
        envFile: join(box, 'tmp', 'env.json'),
        hostname: '127.0.0.1',
        port: 0,
      },
    },
    owner,
    path: (process.env['PATH'] ?? '/usr/bin:/bin').split(':'),
    marks: { GANTRY_SANDBOX: mark },
    environment: {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
      HOME: join(box, 'home'),
      GANTRY_SANDBOX: mark,
      OPENCODE_SERVER_PASSWORD: 'PASSWORD',
      SANDBOX_MCP_AUTH_TOKEN: 'LOCALTOKEN',
    },
  }
  const marked = { mark: `GANTRY_SANDBOX=${mark}`, uid: undefined }
  const remove = async () => {
    await killMarked(marked)
    rmSync(root, { recursive: true, force: true })
  }
  return { root, box, order, marked, remove }
}

export function start(kind: Kind, order: Order, ...more: string[]) {
  const become = kind === 'root' || !isRoot ? [] : asUser
  const [command = '', ...args] = [...become, process.execPath, main, ...more]
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', order.allowed ? 'ignore' : 'inherit'],
    cwd: '/',
  })
  child.stdin.end(JSON.stringify(order))
  return child
}
const asUser = ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups']

export const run = async (kind: Kind, order: Order): Promise<Outcome> =>
  JSON.parse(await text(start(kind, order).stdout)) as Outcome
