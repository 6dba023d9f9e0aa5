import { chmodSync, chownSync, mkdirSync } from 'node:fs'
import type { Server } from 'node:net'
import { join } from 'node:path'
import type { EnclosureReport } from '../../src/contract/enclosure.ts'
import type { Manifest } from '../../src/contract/manifest.ts'
import { messageOf } from '../log.ts'
import { signalMarked } from '../marked-processes.ts'
import type { Owner } from '../workspace/folder.ts'
import { chooseEnclosures } from './enclosure.ts'

interface ProbeInput {
  /** Empty, and the caller's to remove. */
  folder: string
  owner: Owner | undefined
  mode: Manifest['enclosure']
  opencode: string
  path: readonly string[]
}

const probeMs = 20_000
const close = (server: Server) => void server.close()

/** Builds the walls that a sandbox would get, runs nothing in them, and says what came of it. */
export async function probeEnclosure(input: ProbeInput): Promise<EnclosureReport> {
  const { folder, owner, mode, opencode, path } = input
  const place = (name: string) => join(folder, name)
  for (const name of ['home', 'workspace', 'config', 'tmp', 'agent']) mkdirSync(place(name))
  if (owner)
    for (const name of ['home', 'workspace', 'tmp']) chownSync(place(name), owner.uid, owner.gid)
  chmodSync(folder, 0o711)
  const [strongest, weaker] = chooseEnclosures({
    boot: { stateDir: place('agent'), opencode },
    manifest: {
      ...(mode && { enclosure: mode }),
      layout: {
        home: place('home'),
        workspace: place('workspace'),
        configDir: place('config'),
        envFile: place('tmp/env.json'),
        hostname: '127.0.0.1',
        port: 0,
      },
    },
    owner,
    path,
    marks: {},
    serve: { relay: close, proxy: close, socks: close },
  })
  if (!strongest || !weaker) return (strongest as NonNullable<typeof strongest>).report
  const environment = { PATH: path.join(':') }
  const launched = strongest.launch({
    file: 'true',
    args: [],
    cwd: place('workspace'),
    environment,
    masks: [],
  })
  const late = setTimeout(() => signalMarked(-(launched.child.pid ?? 0), 'SIGKILL'), probeMs)
  try {
    await launched.entered
    return strongest.report
  } catch (error) {
    return { ...weaker.report, why: `${strongest.report.how}: ${messageOf(error)}` }
  } finally {
    clearTimeout(late)
    if (launched.child.pid !== undefined) signalMarked(-launched.child.pid, 'SIGKILL')
  }
}
