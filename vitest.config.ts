import { cloudflareTest } from '@cloudflare/vitest-plugin'
import { defineConfig } from 'vitest/config'
import { SlowFirst } from './test/support/slow-first.ts'

const node = { environment: 'node', testTimeout: 60_000, hookTimeout: 120_000 } as const

/** Real machines of the vendors' doubles, deaths in every phase, many sessions: too long for every run. `npm run test:long` */
const long = [
  'test/local/fleet.test.ts',
  'test/adapters/{e2b-{hosts,provider,snapshot,start},modal-{provider,sandboxes,snapshots}}.test.ts',
  'test/e2e/{contract-{freeze,models,modes-deno,organisations},agent-crashes,e2b-agent,modal-agent,providers,recovery,zombie,fleet,lifecycle,warm-pool}.test.ts',
]

export default defineConfig({
  test: {
    // Most of the time is spent waiting for servers, so a little more than the two cores of a small machine.
    maxWorkers: 4,
    silent: 'passed-only',
    sequence: { sequencer: SlowFirst },
    projects: [
      {
        test: {
          ...node,
          name: 'core',
          // No test replaces a module, so files can share what they import; it halves the time. Threads are quicker
          // still, where nothing starts processes.
          isolate: false,
          pool: 'threads',
          include: ['test/{contract,core}/**/*.test.ts'],
        },
      },
      {
        test: {
          ...node,
          name: 'unit',
          isolate: false,
          include: ['test/*.test.ts', 'test/{adapters,http,sandbox-agent,local}/**/*.test.ts'],
          exclude: long,
        },
      },
      {
        plugins: [
          cloudflareTest(({ inject }) => ({
            wrangler: { configPath: './wrangler.toml' },
            main: './test/support/worker.ts',
            remoteBindings: false,
            miniflare: {
              // The newest that the plugin's own workerd knows.
              compatibilityDate: '2026-09-18',
              bindings: inject('bindings'),
            },
          })),
        ],
        test: {
          name: 'workers',
          globalSetup: ['./test/support/workers-setup.ts'],
          include: ['test/workers/**/*.test.ts'],
          testTimeout: 60_000,
        },
      },
      {
        test: {
          ...node,
          name: 'blackbox',
          include: ['test/blackbox/**/*.test.ts'],
          testTimeout: 60_000,
        },
      },
      {
        test: {
          ...node,
          name: 'chaos',
          include: ['test/chaos/**/*.test.ts'],
          testTimeout: 300_000,
          fileParallelism: false,
        },
      },
      {
        // Each starts real OpenCodes, which want the machine for themselves: they start slowly and then mostly wait.
        test: {
          ...node,
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          exclude: ['test/e2e/park.test.ts', ...long],
          testTimeout: 120_000,
          maxWorkers: 2,
        },
      },
      {
        // One after the other: fifty sandboxes leave nothing of a small machine to anybody else.
        test: { ...node, name: 'long', include: long, testTimeout: 300_000, maxWorkers: 1 },
      },
      {
        // Waits for more than five minutes and does nothing meanwhile, so it runs beside everything else.
        test: { ...node, name: 'park', include: ['test/e2e/park.test.ts'] },
      },
    ],
  },
})
