import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Memory } from '../../../sandbox-agent/memory/memory.ts'
import { findMarked, killMarked } from '../../../sandbox-agent/marked-processes.ts'
import { shellPath } from '../../../sandbox-agent/shell.ts'
import { Supervisor } from '../../../sandbox-agent/opencode/supervisor.ts'
import type { Boot } from '../../../src/contract/manifest.ts'
import { isRoot } from '../../support/needs.ts'
import { openReader } from '../support.ts'
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
    marks: { GANTRY_TEST_MARK: root },
    run: openReader().run,
    serve: { relay: () => undefined, proxy: () => undefined, socks: () => undefined },
    onEvent: () => undefined,
    onDied: () => undefined,
    onFailed: () => undefined,
  })
  onTestFinished(async () => {
    await supervisor.stop(0)
    await killMarked(marked)
  })
  await supervisor.start({ ...manifest, enclosure: 'off', environment: { SHELL: '/bin/sh' } })
  const shells = findMarked(marked).map(
    (pid) => /(?:^|\0)SHELL=([^\0]*)/.exec(readFileSync(`/proc/${pid}/environ`, 'utf8'))?.[1],
  )
  expect(shells.length).toBeGreaterThan(0)
  expect(new Set(shells)).toEqual(new Set([shellPath()]))
})

it('[WALL20] outside of a full enclosure there are no ports for hosts with a secret, and a notice says so', async () => {
  const { root, binary, manifest } = opencodeDouble()
  const marked = { mark: `GANTRY_TEST_MARK=${root}`, uid: undefined }
  const notices: unknown[] = []
  const supervisor = new Supervisor({
    boot: { opencode: binary, path: [], stateDir: root } as unknown as Boot,
    memory: new Memory(join(root, 'memory.json')),
    emit: (kind, data) => void (kind === 'agent.notice' && notices.push(data)),
    marked,
    environment: () => ({ GANTRY_TEST_MARK: root }),
    marks: { GANTRY_TEST_MARK: root },
    run: openReader().run,
    serve: { relay: () => undefined, proxy: () => undefined, socks: () => undefined },
    onEvent: () => undefined,
    onDied: () => undefined,
    onFailed: () => undefined,
  })
  onTestFinished(async () => {
    await supervisor.stop(0)
    await killMarked(marked)
  })
  const upstreams = [{ host: 'api.github.com', secrets: ['T'], npm: [] }]
  await supervisor.start({ ...manifest, enclosure: 'off', upstreams })
  const message = 'Secrets for api.github.com cannot be used: this sandbox has no full enclosure'
  expect(notices).toEqual([{ message }])
  for (const pid of findMarked(marked))
    expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).not.toContain('GANTRY_UPSTREAM')
})

/** A supervisor whose agent finds `unshare` only as long as nobody puts another one before it. */
function enclosedSupervisor() {
  const { root, binary, manifest } = opencodeDouble()
  const [folder, agent] = [join(root, 'first'), join(root, 'agent')]
  for (const each of [folder, agent]) mkdirSync(each)
  chmodSync(root, 0o755)
  const before = process.env['PATH'] ?? ''
  process.env['PATH'] = `${folder}:${before}`
  const refuse = () =>
    writeFileSync(join(folder, 'unshare'), '#!/bin/sh\necho not permitted >&2; exit 1\n', {
      mode: 0o755,
    })
  const marked = { mark: `GANTRY_TEST_MARK=${root}`, uid: undefined }
  const { promise: failed, resolve } = Promise.withResolvers<string>()
  const uid = isRoot ? 40_000 + Math.floor(Math.random() * 9999) : undefined
  const supervisor = new Supervisor({
    boot: { opencode: binary, path: [], stateDir: agent, uid } as unknown as Boot,
    memory: new Memory(join(root, 'memory.json')),
    emit: () => {},
    marked,
    environment: () => ({ GANTRY_TEST_MARK: root }),
    marks: { GANTRY_TEST_MARK: root },
    run: openReader().run,
    serve: { relay: () => undefined, proxy: () => undefined, socks: () => undefined },
    onEvent: () => undefined,
    onDied: () => undefined,
    onFailed: resolve,
  })
  onTestFinished(async () => {
    process.env['PATH'] = before
    await supervisor.stop(0)
    await killMarked(marked)
  })
  return { supervisor, manifest, refuse, failed }
}

describe('[WALL7] walls that cannot be built', () => {
  it('are done without at the first start, and the report says why', async () => {
    const { supervisor, manifest, refuse } = enclosedSupervisor()
    refuse()
    await supervisor.start(manifest)
    expect(supervisor.enclosure).toMatchObject({
      level: isRoot ? 'uid' : 'none',
      why: expect.stringContaining('not permitted'),
    })
    expect((await supervisor.opencode()).alive).toBe(true)
  })

  it(
    'are not done without once they were there: the sandbox fails',
    { timeout: 60_000 },
    async () => {
      const { supervisor, manifest, refuse, failed } = enclosedSupervisor()
      await supervisor.start(manifest)
      expect(supervisor.enclosure).toMatchObject({ level: 'full', why: null })
      refuse()
      await supervisor.kill()
      expect(await failed).toContain('not permitted')
      expect(supervisor.enclosure.level).toBe('full')
    },
  )
})

it('[WALL9] switched off, it takes the weakest, and says so', async () => {
  const { supervisor, manifest } = enclosedSupervisor()
  await supervisor.start({ ...manifest, enclosure: 'off' })
  expect(supervisor.enclosure).toMatchObject({
    level: isRoot ? 'uid' : 'none',
    why: 'It is switched off',
  })
})

it('[TURN12] an OpenCode that was killed because it hung comes back, however often; it has not died by itself', async () => {
  const { root, binary, manifest } = opencodeDouble()
  const marked = { mark: `GANTRY_TEST_MARK=${root}`, uid: undefined }
  const { promise: failed, reject } = Promise.withResolvers<never>()
  failed.catch(() => undefined)
  mkdirSync(join(root, 'agent'))
  let deaths = 0
  const supervisor = new Supervisor({
    boot: { opencode: binary, path: [], stateDir: join(root, 'agent') } as unknown as Boot,
    memory: new Memory(join(root, 'memory.json')),
    emit: () => {},
    marked,
    environment: () => ({ GANTRY_TEST_MARK: root }),
    marks: { GANTRY_TEST_MARK: root },
    run: openReader().run,
    serve: { relay: () => undefined, proxy: () => undefined, socks: () => undefined },
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
