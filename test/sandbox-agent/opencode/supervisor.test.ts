import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { Memory } from '../../../sandbox-agent/memory/memory.ts'
import { findMarked, killMarked } from '../../../sandbox-agent/marked-processes.ts'
import { bashPath } from '../../../sandbox-agent/shell.ts'
import { Supervisor } from '../../../sandbox-agent/opencode/supervisor.ts'
import type { Boot } from '../../../src/contract/manifest.ts'
import { opencodeDouble } from './opencode-double.ts'

it('[EXEC28] OpenCode is told to run commands by bash, whatever the manifest or the agent has', async () => {
  const { root, binary, manifest } = opencodeDouble()
  const marked = { mark: `GANTRY_TEST_MARK=${root}`, uid: undefined }
  const supervisor = new Supervisor({
    boot: { opencode: binary, path: [], stateDir: root } as unknown as Boot,
    memory: new Memory(join(root, 'memory.json')),
    emit: () => {},
    marked,
    environment: () => ({ GANTRY_TEST_MARK: root, SHELL: '/bin/sh' }),
    onEvent: () => undefined,
    onDied: () => undefined,
    onFailed: () => undefined,
  })
  onTestFinished(async () => {
    await supervisor.stop(0)
    await killMarked(marked)
  })
  await supervisor.start({ ...manifest, environment: { SHELL: '/bin/sh' } })
  const shells = findMarked(marked).map(
    (pid) => /(?:^|\0)SHELL=([^\0]*)/.exec(readFileSync(`/proc/${pid}/environ`, 'utf8'))?.[1],
  )
  expect(shells.length).toBeGreaterThan(0)
  expect(new Set(shells)).toEqual(new Set([bashPath()]))
})

it('[TURN12] an OpenCode that was killed because it hung comes back, however often; it has not died by itself', async () => {
  const { root, binary, manifest } = opencodeDouble()
  const marked = { mark: `GANTRY_TEST_MARK=${root}`, uid: undefined }
  const { promise: failed, reject } = Promise.withResolvers<never>()
  failed.catch(() => undefined)
  let deaths = 0
  const supervisor = new Supervisor({
    boot: { opencode: binary, path: [], stateDir: root } as unknown as Boot,
    memory: new Memory(join(root, 'memory.json')),
    emit: () => {},
    marked,
    environment: () => ({ GANTRY_TEST_MARK: root }),
    onEvent: () => undefined,
    onDied: () => void (deaths += 1),
    onFailed: (reason) => reject(new Error(reason)),
  })
  onTestFinished(async () => {
    await supervisor.stop(0)
    await killMarked(marked)
  })
  await supervisor.start(manifest)
  for (let kills = 1; kills <= 6; kills += 1) {
    await supervisor.kill()
    await expect.poll(() => deaths).toBe(kills)
    expect((await Promise.race([supervisor.opencode(), failed])).alive).toBe(true)
  }
})
