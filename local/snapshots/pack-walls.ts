// Where git runs when it unpacks what a sandbox has packed: its packs are an adversary's input, and the host is root or
// the developer. In namespaces of their own, as the sandbox's user, without network, with the copy read-only. Built at
// the first use and ended with the snapshot. Where no walls can be built git runs as before, as the host itself.

import { chmodSync, chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { chooseEnclosures } from '../../sandbox-agent/enclosure/enclosure.ts'
import type { CommandLine, Held } from '../../sandbox-agent/enclosure/held.ts'

/** What to start so that git runs with these arguments where it should. */
export type GitLine = (args: readonly string[]) => Promise<CommandLine>

export interface PackWalls {
  line: GitLine
  close: () => void
}

const hostOnly = 0o700
const notServed = () => undefined

/** `content` is only read; `scratch` is ours, and gets folders for it. */
export function packWalls(content: string, scratch: string, uid: number | undefined): PackWalls {
  let walls: Promise<Held | undefined> | undefined
  return {
    line: async (args) => {
      const held = await (walls ??= build(content, scratch, uid))
      if (held === undefined) return { file: 'git', args: [...args], owner: undefined }
      return held.commandLine('/', 'git', args)
    },
    close: () => {
      chmodSync(content, hostOnly)
      void walls?.then((held) => held?.child?.stdin?.destroy())
    },
  }
}

async function build(
  content: string,
  scratch: string,
  uid: number | undefined,
): Promise<Held | undefined> {
  const owner = uid === undefined ? undefined : { uid, gid: uid }
  // The folder around it stays closed to everybody else.
  chmodSync(content, 0o711)
  const folder = (name: string) => {
    const path = join(scratch, name)
    mkdirSync(path)
    chmodSync(path, 0o700)
    if (owner) chownSync(path, owner.uid, owner.gid)
    return path
  }
  const [strongest, weaker] = chooseEnclosures({
    boot: { stateDir: folder('agent'), opencode: process.execPath },
    manifest: {
      layout: {
        ...{ home: folder('home'), workspace: folder('work'), configDir: content },
        ...{ envFile: join(folder('tmp'), 'env.json'), hostname: '127.0.0.1', port: 0 },
      },
    },
    owner,
    path: ['/usr/bin', '/bin'],
    marks: {},
    serve: { relay: notServed, proxy: notServed, socks: notServed },
  })
  if (!strongest || !weaker) return undefined
  const held = strongest.hold()
  return held.entered.then(
    () => held,
    () => undefined,
  )
}
