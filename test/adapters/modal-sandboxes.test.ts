import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { importKey, modalAppHeaders } from '../../src/adapters/sandboxes/modal-app.ts'
import { createModalSandboxes } from '../../src/adapters/sandboxes/modal.ts'
import { remoteImage } from '../../src/adapters/sandboxes/remote-layout.ts'
import { errorCodeOf } from '../../src/contract/error.ts'
import { until } from '../local/support.ts'
import { organisation, otherOrganisation } from '../suites/sandbox-provider/tools.ts'
import { serveGit } from '../support/git-server.ts'
import { type ModalMachine, whyNoModal } from '../support/modal-double.ts'
import { failure, useModalWorld } from '../support/modal-kit.ts'
import { processesOf } from '../support/sandbox-namespace.ts'
import { longTest } from '../support/long.ts'

const whyNot = whyNoModal()
const title = whyNot === null ? 'sandboxes at Modal' : `sandboxes at Modal (not here: ${whyNot})`

describe.skipIf(whyNot !== null)(title, { timeout: 180_000 }, () => {
  const { world, started, stop, callsOf } = useModalWorld()

  describe('cut off', () => {
    longTest(
      '[MODAL6] wherever a create is cut off, the next one ends with one sandbox',
      async () => {
        const first = world().spec()
        const steps = await callsOf(() => world().provider.create(first))
        await stop(first)
        expect(steps.map(({ on }) => on)).toContain('Sandbox.create')
        for (const step of steps)
          for (const after of [false, true]) {
            const spec = world().spec()
            await world().double.vendorFault({ ...step, error: 'InternalError', after })
            const error = await failure(world().provider.create(spec))
            if (error !== undefined) expect(errorCodeOf(error)).toBe('sandbox_unavailable')
            await started(spec)
            expect(await world().tokens(spec.sessionId, 1), JSON.stringify(step)).toEqual([
              spec.token,
            ])
            await stop(spec)
            expect(await world().machines(spec.sessionId, 1)).toEqual([])
          }
      },
    )

    longTest('[MODAL6] wherever a stop is cut off, the next one ends it', async () => {
      const first = world().spec()
      await started(first)
      const steps = await callsOf(() => stop(first))
      for (const step of steps) {
        const spec = world().spec()
        await started(spec)
        await world().double.vendorFault({ ...step, error: 'InternalError' })
        expect(errorCodeOf(await failure(stop(spec)))).toBe('sandbox_unavailable')
        await stop(spec)
        expect(await world().machines(spec.sessionId, 1)).toEqual([])
        expect(await world().provider.get(spec.sessionId, 1)).toBeNull()
      }
    })

    test('[MODAL6] a stop that has failed is not said to have ended the sandbox', async () => {
      const spec = world().spec()
      await started(spec)
      await world().double.vendorFault({ on: 'Sandbox.terminate', error: 'InternalError' })
      await failure(stop(spec))
      expect(await world().provider.get(spec.sessionId, 1)).toMatchObject({ state: 'running' })
      await stop(spec)
    })

    longTest('[MODAL6] too many requests are a failure that can be repeated', async () => {
      const spec = world().spec()
      await world().double.vendorFault({ on: 'Sandbox.create', error: 'ResourceExhaustedError' })
      const error = await failure(world().provider.create(spec))
      expect(errorCodeOf(error)).toBe('sandbox_unavailable')
      expect((error as Error).message).toContain('429')
      await started(spec)
      await stop(spec)
    })
  })

  describe('secrets', () => {
    test('[MODAL8] the token is in no argument, environment, file or log', async () => {
      const spec = world().spec()
      const machine = await started(spec)
      const pids = processesOf(machine.pid)
      expect(pids.length).toBeGreaterThan(1)
      for (const pid of pids)
        for (const what of ['cmdline', 'environ'])
          expect(readFileSync(`/proc/${pid}/${what}`, 'utf8')).not.toContain(spec.token)
      // The stand-in for the agent writes it for the tests, and nobody else does.
      await expect
        .poll(() => filesWith(machine, spec.token))
        .toEqual([join(machine.folder, 'upper', remoteImage.stateDir, 'token')])
      expect(world().double.log.join('\n')).not.toContain(spec.token)
      expect(world().double.log.length).toBeGreaterThan(0)
      await stop(spec)
    })

    longTest(
      '[MODAL8] a private repository is cloned without its credential in the sandbox',
      async () => {
        const git = await serveGit('x-access-token', 'the-credential-of-it')
        await world().double.openPort(git.port)
        const repository = { url: git.url, ref: git.branch, token: 'the-credential-of-it' }
        const spec = world().spec({ repository })
        const machine = await started(spec)
        expect(await world().read(spec.sessionId, 1, 'readme.txt')).toBe('of the branch\n')
        expect(git.secrets).toContain('the-credential-of-it')
        expect(filesWith(machine, 'the-credential-of-it')).toEqual([])
        const config = await world().run(machine, 'user', 'cat /workspace/.git/config')
        expect(config).toContain(git.url)
        await stop(spec)
      },
    )

    test('[MODAL8] [MODAL13] a repository that cannot be cloned ends the sandbox with the reason', async () => {
      const repository = { url: 'https://127.0.0.1:1/none', ref: null, token: null }
      const spec = world().spec({ repository })
      await world().provider.create(spec)
      const info = await until(async () => {
        const found = await world().provider.get(spec.sessionId, 1)
        return found?.state === 'exited' ? found : null
      }, 30_000)
      expect(info.reason).toMatch(/git clone failed/)
      expect(info.fault).toBe('repository')
      await stop(spec)
    })

    test('[MODAL2] who does not know the secret, or comes too late, is refused', async () => {
      const { url, secret } = world().double
      const other = { ...world().options, secret: 'another-secret-of-somebody' }
      const error = await failure(createModalSandboxes(other).list(organisation))
      expect(errorCodeOf(error)).toBe('sandbox_unavailable')
      expect((error as Error).message).toContain('GANTRY_MODAL_SECRET')
      const key = await importKey(new TextEncoder().encode(secret))
      const body = JSON.stringify({ label: 'test', organisationId: organisation })
      const ask = async (at: number) => {
        const headers = await modalAppHeaders(key, 'POST', '/v1/list', body, String(at))
        return (await fetch(`${url}/v1/list`, { method: 'POST', headers, body })).status
      }
      const now = Math.floor(Date.now() / 1000)
      expect([await ask(now), await ask(now - 70), await ask(now + 70)]).toEqual([200, 401, 401])
    })
  })

  describe('its end', () => {
    test('[MODAL9] a sandbox whose agent has ended says why, with its last words', async () => {
      const spec = world().spec()
      const machine = await started(spec)
      const { stateDir } = remoteImage
      // Half a character, as where the end of a log is cut off.
      await world().run(machine, 'root', `printf '\\237\\230' >> ${stateDir}/agent.log`)
      await world().run(machine, 'root', `kill -9 $(cut -d' ' -f1 ${stateDir}/launch/process)`)
      const info = await until(async () => {
        const found = await world().provider.get(spec.sessionId, 1)
        return found?.state === 'exited' ? found : null
      })
      expect(info.reason).toContain('stand-in ready')
      await stop(spec)
    })

    longTest('[MODAL9] the user of the sandbox can neither end nor extend it', async () => {
      const spec = world().spec()
      const machine = await started(spec)
      for (const script of [
        'kill -9 1',
        `echo 99999999999 > ${remoteImage.stateDir}/deadline`,
        `cat ${remoteImage.stateDir}/deadline`,
      ])
        await expect(world().run(machine, 'user', script)).rejects.toThrow(/not permitted|denied/i)
      await stop(spec)
    })

    longTest(
      '[MODAL9] more than Modal’s day is refused, and as much as there is is given',
      async () => {
        const spec = world().spec({
          limits: { memoryMb: null, processes: null, lifetimeSeconds: 60 },
        })
        const machine = await started(spec)
        const error = await failure(world().provider.extend(spec.sessionId, 1, 25 * 3600))
        expect(errorCodeOf(error)).toBe('wrong_state')
        expect((error as Error).message).toContain('Modal ends it')
        const deadline = await world().run(machine, 'root', `cat ${remoteImage.stateDir}/deadline`)
        expect(Number(deadline) - Date.now() / 1000).toBeGreaterThan(23 * 3600)
        await stop(spec)
      },
    )

    longTest(
      '[MODAL9] a sandbox that Modal no longer knows is not found, and not made again',
      async () => {
        const spec = world().spec()
        const { id } = await started(spec)
        await world().double.vanish(id)
        expect(await world().provider.get(spec.sessionId, 1)).toBeNull()
        expect(await world().provider.create(spec)).toMatchObject({ state: 'exited' })
        expect(await world().machines(spec.sessionId, 1)).toEqual([])
      },
    )

    longTest('[MODAL9] a create that arrives after the stop makes nothing', async () => {
      const spec = world().spec()
      await started(spec)
      await stop(spec)
      const info = await world().provider.create(spec)
      expect(info).toMatchObject({ state: 'exited', reason: 'It was stopped' })
      const unknown = world().spec()
      await stop(unknown)
      expect(await world().provider.create(unknown)).toMatchObject({ state: 'exited' })
      expect(await world().machines(unknown.sessionId, 1)).toEqual([])
    })

    longTest('[MODAL9] what Modal makes after the stop is ended by the create itself', async () => {
      const spec = world().spec()
      await world().double.vendorFault({ on: 'Sandbox.create', delayMs: 1000 })
      const creating = world().provider.create(spec)
      await until(async () => (await world().double.state()).calls.at(-1) === 'Sandbox.create')
      await stop(spec)
      expect(await creating).toMatchObject({ state: 'exited', reason: 'It was stopped' })
      expect(await world().machines(spec.sessionId, 1)).toEqual([])
      expect(await world().provider.get(spec.sessionId, 1)).toBeNull()
    })

    test('[MODAL9] another organisation cannot have a session’s sandbox', async () => {
      const spec = world().spec()
      await started(spec)
      const foreign = { ...spec, organisationId: otherOrganisation }
      await expect(world().provider.create(foreign)).rejects.toMatchObject({ code: 'wrong_state' })
      await stop(spec)
    })

    longTest(
      '[MODAL9] a paused sandbox goes on when it wakes, and is still the only one',
      async () => {
        const spec = world().spec()
        const { id } = await started(spec)
        await world().double.pause(id)
        await world().double.wake(id)
        await started(spec)
        expect(await world().tokens(spec.sessionId, 1)).toEqual([spec.token])
        await stop(spec)
      },
    )
  })
})

/** Files that the machine has written, in which it is. */
function filesWith({ folder }: ModalMachine, text: string): string[] {
  const places = [join(folder, 'upper'), join(folder, 'tmp')]
  const { stdout } = spawnSync('grep', ['-rlaF', '--', text, ...places], { encoding: 'utf8' })
  return stdout.split('\n').filter((line) => line !== '')
}
