import { join } from 'node:path'
import { cloudflareTest } from '@cloudflare/vitest-plugin'
import { defineConfig } from 'vitest/config'
import { longOnly, longToo } from './test/support/long-files.ts'
import { SlowFirst } from './test/support/slow-first.ts'

/** Limits that a busy machine keeps: nothing depends on speed. */
const node = {
  environment: 'node',
  testTimeout: 180_000,
  hookTimeout: 240_000,
  expect: { poll: { timeout: 120_000 } },
  // What a module becomes is found by its text, so the parts of a run, and the next run, make it once.
  experimental: {
    fsModuleCache: true,
    fsModuleCachePath: join(import.meta.dirname, 'node_modules/.cache/modules'),
  },
} as const

/** The order of tests within a file must not matter. `npm test` prints the seed. */
const shuffled = {
  shuffle: { files: false, tests: true },
  seed: Number(process.env['GANTRY_SEED'] ?? 1),
}

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
          sequence: shuffled,
          // No test replaces a module, so files can share what they import; it halves the time. Threads are quicker
          // still, where nothing starts processes.
          isolate: false,
          pool: 'threads',
          include: ['test/{contract,core}/**/*.test.ts', 'test/simulation/simulation.test.ts'],
        },
      },
      {
        test: {
          ...node,
          name: 'unit',
          sequence: shuffled,
          isolate: false,
          include: [
            'test/*.test.ts',
            'test/{adapters,client,hosts,http,through,sandbox-agent,local,runner}/**/*.test.ts',
          ],
          exclude: longOnly,
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
          // What they import is a second of each start, and no file changes it.
          isolate: false,
          maxWorkers: 1,
          globalSetup: ['./test/support/workers-setup.ts'],
          include: ['test/workers/**/*.test.ts'],
          testTimeout: 180_000,
        },
      },
      {
        test: {
          ...node,
          name: 'blackbox',
          sequence: { groupOrder: 4 },
          // One after the other in one process, which has one stack per host for all of them.
          isolate: false,
          fileParallelism: false,
          include: ['test/blackbox/**/*.test.ts'],
          exclude: longOnly,
        },
      },
      {
        test: {
          ...node,
          name: 'chaos',
          sequence: { groupOrder: 2 },
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
          // What a file imports stays for the next one: they share a stack.
          isolate: false,
          // Projects of another width come one after the other.
          sequence: { groupOrder: 1 },
          include: ['test/e2e/**/*.test.ts'],
          exclude: longOnly,
          testTimeout: 300_000,
          maxWorkers: 2,
        },
      },
      {
        // One after the other: fifty sandboxes leave nothing of a small machine to anybody else.
        test: {
          ...node,
          name: 'long',
          sequence: { groupOrder: 3 },
          env: { GANTRY_LONG: '1' },
          include: process.env['GANTRY_LONG'] === '1' ? [...longOnly, ...longToo] : longOnly,
          testTimeout: 300_000,
          maxWorkers: 1,
        },
      },
    ],
  },
})
