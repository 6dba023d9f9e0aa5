import { describe, expect, test } from 'vitest'
import { remoteLayout } from '../../src/adapters/sandboxes/remote-layout.ts'
import { errorCodeOf } from '../../src/contract/error.ts'
import { until } from '../local/support.ts'
import { organisation } from '../suites/sandbox-provider/tools.ts'
import { whyNoModal } from '../support/modal-double.ts'
import { failure, newSnapshotId, useModalWorld } from '../support/modal-kit.ts'
import { longTest, someOf } from '../support/long.ts'

const whyNot = whyNoModal()
const title = whyNot === null ? 'snapshots at Modal' : `snapshots at Modal (not here: ${whyNot})`

describe.skipIf(whyNot !== null)(title, { timeout: 180_000 }, () => {
  const { world, started, stop, take, callsOf } = useModalWorld()

  describe('cut off', () => {
    longTest(
      '[MODAL7] wherever a snapshot is cut off, no copy is left and the next one is whole',
      async () => {
        const spec = world().spec()
        await started(spec)
        await world().write(spec.sessionId, 1, 'a.txt', 'work')
        const steps = await callsOf(() => take(spec, newSnapshotId()))
        const seen = new Set<string>()
        const distinct = steps.filter(({ on, skip }) => {
          const isNew = !seen.has(on) || on === 'Sandbox.exec' || (on === 'Dict.put' && skip === 1)
          seen.add(on)
          return isNew
        })
        expect(seen).toContain('Sandbox.snapshot_directory')
        const isEnd = ({ on }: { on: string }) => Number(on === 'Sandbox.terminate')
        for (const step of distinct.toSorted((a, b) => isEnd(a) - isEnd(b))) {
          const snapshotId = newSnapshotId()
          const before = (await world().double.state()).images
          await world().double.vendorFault({ ...step, error: 'InternalError' })
          const error = await failure(take(spec, snapshotId))
          if (error !== undefined) expect(errorCodeOf(error)).toBe('sandbox_unavailable')
          const { bytes } = await take(spec, snapshotId)
          expect(bytes).toBeGreaterThan(0)
          // One that Modal did not end when it was told has its own time limit; a stop ends it, too.
          const copies = await world().machines(spec.sessionId, 1, 'scrub')
          expect(copies.length, step.on).toBe(step.on === 'Sandbox.terminate' ? 1 : 0)
          const made = (await world().double.state()).images.filter((id) => !before.includes(id))
          // A draft that could not be cleared away goes by itself after an hour.
          expect(made.length, step.on).toBeLessThanOrEqual(2)
        }
        await stop(spec)
        expect(await world().machines(spec.sessionId, 1, 'scrub')).toEqual([])
      },
    )

    test('[MODAL7] wherever a restore is cut off, the next create ends with all its files', async () => {
      const [spec, snapshotId] = [world().spec(), newSnapshotId()]
      await started(spec)
      await world().write(spec.sessionId, 1, 'a.txt', 'work')
      await take(spec, snapshotId)
      for (const on of someOf(['Image.build', 'Sandbox.mount_image', 'Sandbox.exec']))
        for (const after of [false, true]) {
          const copy = world().spec({ snapshotId })
          await world().double.vendorFault({ on, error: 'InternalError', after })
          expect(errorCodeOf(await failure(world().provider.create(copy)))).toBe(
            'sandbox_unavailable',
          )
          await started(copy)
          expect(await world().read(copy.sessionId, 1, 'a.txt'), on).toBe('work')
          expect(await world().tokens(copy.sessionId, 1), on).toEqual([copy.token])
          await stop(copy)
        }
      await stop(spec)
    })
  })

  describe('files', () => {
    longTest('[MODAL10] one has nothing but the home and the workspace', async () => {
      const spec = world().spec()
      const machine = await started(spec)
      await world().write(spec.sessionId, 1, 'a.txt', 'work')
      await world().run(
        machine,
        'user',
        'echo x > /tmp/left; echo y > /var/tmp/left; echo z > ~/kept',
      )
      await world().run(machine, 'user', 'mkdir ~/.ssh; echo key > ~/.ssh/id; echo t > ~/.netrc')
      await world().run(machine, 'root', 'echo changed > /opt/gantry/changed')
      const snapshotId = newSnapshotId()
      await take(spec, snapshotId)
      // The live one is left as it is.
      expect(await world().run(machine, 'user', 'cat /tmp/left ~/.netrc')).toBe('x\nt\n')
      const copy = world().spec({ snapshotId })
      const restored = await started(copy)
      const found =
        'for f in /tmp/left /var/tmp/left /opt/gantry/changed ~/.ssh ~/.netrc ~/kept; do'
      const names = await world().run(restored, 'user', `${found} [ ! -e $f ] || echo $f; done`)
      expect(names).toBe(`${remoteLayout.home}/kept\n`)
      expect(await world().read(copy.sessionId, 1, 'a.txt')).toBe('work')
      const owners = await world().run(
        restored,
        'user',
        'stat -c %u /workspace /workspace/a.txt ~ ~/kept; cd /workspace && git status --short',
      )
      expect(owners).toBe('1000\n1000\n1000\n1000\n?? a.txt\n')
      await Promise.all([stop(spec), stop(copy)])
    })

    longTest('[MODAL10] what was restored is in the next snapshot, too', async () => {
      const [spec, one, two] = [world().spec(), newSnapshotId(), newSnapshotId()]
      await started(spec)
      await world().write(spec.sessionId, 1, 'a.txt', 'work')
      await take(spec, one)
      const second = world().spec({ snapshotId: one })
      await started(second)
      await world().write(second.sessionId, 1, 'b.txt', 'more')
      await take(second, two)
      const third = world().spec({ snapshotId: two })
      await started(third)
      expect(await world().read(third.sessionId, 1, 'a.txt')).toBe('work')
      expect(await world().read(third.sessionId, 1, 'b.txt')).toBe('more')
      await Promise.all([spec, second, third].map(stop))
    })

    longTest(
      '[MODAL10] one that nobody has used for weeks can be restored and deleted',
      async () => {
        const [spec, snapshotId] = [world().spec(), newSnapshotId()]
        await started(spec)
        await world().write(spec.sessionId, 1, 'a.txt', 'work')
        await take(spec, snapshotId)
        await stop(spec)
        await world().double.forgetEntries()
        const copy = world().spec({ snapshotId })
        await started(copy)
        expect(await world().read(copy.sessionId, 1, 'a.txt')).toBe('work')
        await stop(copy)
        const { images } = await world().double.state()
        await world().provider.deleteSnapshot(organisation, snapshotId)
        expect((await world().double.state()).images).toHaveLength(images.length - 1)
        await world().double.forgetEntries()
        await expect(world().provider.create(world().spec({ snapshotId }))).rejects.toMatchObject({
          code: 'not_found',
        })
      },
    )

    test('[MODAL10] a snapshot that is deleted while it is taken does not come back', async () => {
      const [spec, snapshotId] = [world().spec(), newSnapshotId()]
      await started(spec)
      const before = (await world().double.state()).images
      const taking = failure(take(spec, snapshotId))
      await until(async () => (await world().machines(spec.sessionId, 1, 'scrub')).length > 0)
      await world().provider.deleteSnapshot(organisation, snapshotId)
      expect(errorCodeOf(await taking)).toBe('not_found')
      expect(errorCodeOf(await failure(take(spec, snapshotId)))).toBe('not_found')
      expect((await world().double.state()).images).toEqual(before)
      await stop(spec)
    })

    longTest('[MODAL10] the copy has no network, and a stop ends it, too', async () => {
      const spec = world().spec()
      await started(spec)
      const taking = failure(take(spec, newSnapshotId()))
      const copy = await until(async () => (await world().machines(spec.sessionId, 1, 'scrub'))[0])
      const links = await world().run(copy, 'root', 'ls /sys/class/net; ip -o link').catch(String)
      expect(links).not.toMatch(/eth/)
      await stop(spec)
      await taking
      expect(await world().machines(spec.sessionId, 1, 'scrub')).toEqual([])
    })
  })
})
