import { cloudflareTest } from '@cloudflare/vitest-plugin'
import { defineConfig } from 'vitest/config'

const node = { environment: 'node', testTimeout: 20_000, hookTimeout: 60_000 } as const

export default defineConfig({
  test: {
    // Most of the time is spent waiting for servers, so a little more than the two cores of a small machine.
    maxWorkers: 3,
    projects: [
      {
        test: {
          ...node,
          name: 'unit',
          include: [
            'test/*.test.ts',
            'test/{contract,core,adapters,http,sandbox-agent,local}/**/*.test.ts',
          ],
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
          testTimeout: 20_000,
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
        // Each starts real OpenCodes, which want the machine for themselves.
        test: {
          ...node,
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          testTimeout: 120_000,
          fileParallelism: false,
        },
      },
    ],
  },
})
