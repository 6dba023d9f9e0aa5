import { join } from 'node:path'
import { root } from '../local/binaries.ts'
import { startStack, type Stack } from '../local/stack/stack.ts'

const common = { host: 'workerd', sandboxes: false, model: 'none' } as const

/**
 * The two that most rows compare: Gantry with a tool that does nothing, and the baseline. The groups of the bench ask for
 * them; each is started when it is first needed, and `stop` ends both.
 */
export class Servers {
  readonly #folder: string
  #gantry: Promise<Stack> | undefined
  #base: Promise<Stack> | undefined
  #started = 0

  constructor(folder: string) {
    this.#folder = folder
  }

  gantry(): Promise<Stack> {
    this.#gantry ??= startStack({
      ...common,
      stateDir: this.#newFolder('gantry'),
      entry: join(root, 'bench', 'worker.ts'),
      env: { RATE_LIMIT_PER_MINUTE: '100000000' },
    })
    return this.#gantry
  }

  base(): Promise<Stack> {
    this.#base ??= startStack({
      ...common,
      stateDir: this.#newFolder('base'),
      entry: join(root, 'bench', 'baseline.ts'),
      objects: { BASE: 'BaseObject' },
      healthPath: '/',
    })
    return this.#base
  }

  #newFolder(name: string): string {
    this.#started += 1
    return join(this.#folder, `${name}-${this.#started}`)
  }

  async stop(): Promise<void> {
    const started = [this.#gantry, this.#base]
    this.#gantry = this.#base = undefined
    for (const stack of started) await (await stack)?.stop()
  }
}
