// How the agent runs a program over what OpenCode may have written: the workspace's git, OpenCode's SQLite store. It
// runs inside walls like OpenCode's, as its user, without any network, with one git configuration, in bounded time and
// memory; what it prints is a claim of the sandbox, and no more. Use it for every such read:
//
//   const { code, output } = await reader.run('git', ['-C', workspace, 'log', '-1'], {
//     environment: { PATH, HOME }, maxBytes: 100_000, timeoutMs: 10_000,
//   })
//
// A script for SQLite goes by `process.execPath` and `--input-type=module` over `input`: that Node is there inside. Files
// of the agent's own are not. The walls are built at the first use, in about 0.1 s, and kept; each run enters them.

import { type Held, type Ran, type RunOptions, runHeld } from './held.ts'

export type Run = (program: string, args: readonly string[], options: RunOptions) => Promise<Ran>

export class Reader {
  readonly #open: () => Promise<Held>
  #walls: Promise<Held> | undefined

  /** `open` builds walls that are as strong as OpenCode's, or throws. */
  constructor(open: () => Promise<Held>) {
    this.#open = open
  }

  readonly run: Run = async (program, args, options) => {
    const walls = (this.#walls ??= this.#build())
    const held = await walls
    const ran = await runHeld(held, program, args, options)
    if (ran.code === 0 || (await stands(held))) return ran
    // They end with OpenCode's restart, when everything of the sandbox's user does.
    if (this.#walls === walls) this.#walls = undefined
    return runHeld(await (this.#walls ??= this.#build()), program, args, options)
  }

  close(): void {
    void this.#walls?.then(
      ({ child }) => void child?.stdin?.destroy(),
      () => undefined,
    )
  }

  async #build(): Promise<Held> {
    try {
      return await this.#open()
    } catch (error) {
      this.#walls = undefined
      throw error
    }
  }
}

/** Whether they can still be entered. */
async function stands(held: Held): Promise<boolean> {
  if (!held.child) return true
  const limits = { environment: { PATH: '/usr/bin:/bin' }, maxBytes: 100, timeoutMs: 5000 }
  return (await runHeld(held, '/bin/true', [], limits)).code === 0
}
