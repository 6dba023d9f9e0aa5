import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { Memory } from '../../../sandbox-agent/memory/memory.ts'
import { killMarked } from '../../../sandbox-agent/marked-processes.ts'
import { Supervisor } from '../../../sandbox-agent/opencode/supervisor.ts'
import type { Boot } from '../../../src/contract/manifest.ts'
import { opencodeDouble } from './opencode-double.ts'

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
