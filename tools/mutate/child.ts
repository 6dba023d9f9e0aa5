import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createVitest } from 'vitest/node'
import type { Plan } from './plan.ts'

// One vitest for all mutants, with a single worker. `run.ts` starts it, and ends it if it hangs.

const plan = JSON.parse(readFileSync(process.env['GANTRY_MUTATION_PLAN'] ?? '', 'utf8')) as Plan
const here = import.meta.dirname

const vitest = await createVitest(
  'test',
  {
    config: false,
    root: plan.root,
    watch: false,
    reporters: [{}],
    include: [join(here, 'empty.ts')],
    runner: join(here, 'runner.ts'),
    environment: 'node',
    pool: 'forks',
    isolate: false,
    maxWorkers: 1,
    silent: true,
    dangerouslyIgnoreUnhandledErrors: true,
    expect: { poll: { timeout: plan.limitMs } },
  },
  {
    plugins: [
      {
        name: 'mutants',
        enforce: 'pre',
        load: (id) => plan.sources[id],
      },
    ],
  },
)
await vitest.start()
await vitest.close()
process.exit(0)
