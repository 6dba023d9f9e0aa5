import { expect } from 'vitest'
import { errorCodeOf } from '../../../src/contract/error.ts'
import { expectUnavailable, organisation, otherOrganisation, type SandboxCase } from './tools.ts'

const secret = { name: 'API_KEY', value: 'canary-value-4711' }

export const snapshotCases = {
  'snapshot twice': {
    title: '[PROV7] one snapshot id is taken once, also at once',
    run: async ({ newSpec, newSnapshotId, start, write, read, take }) => {
      const [spec, snapshotId] = [newSpec(), newSnapshotId()]
      await start(spec)
      await write(spec, 'a.txt', 'before')
      const taken = await Promise.all([1, 2, 3].map(() => take(spec, snapshotId)))
      await write(spec, 'a.txt', 'after')
      taken.push(await take(spec, snapshotId))
      for (const each of taken) expect(each).toEqual({ snapshotId, bytes: taken[0]?.bytes })
      const copy = newSpec({ snapshotId })
      await start(copy)
      expect(await read(copy, 'a.txt')).toBe('before')
    },
  },
  'snapshot, answer lost': {
    title: '[PROV7] a snapshot whose answer was lost can be asked for again',
    run: async ({ world, newSpec, newSnapshotId, start, write, read, take }) => {
      const [spec, snapshotId] = [newSpec(), newSnapshotId()]
      await start(spec)
      await write(spec, 'a.txt', 'x')
      world.loseNextAnswer()
      await take(spec, snapshotId).catch(expectUnavailable)
      expect(await take(spec, snapshotId)).toMatchObject({ snapshotId })
      const copy = newSpec({ snapshotId })
      await start(copy)
      expect(await read(copy, 'a.txt')).toBe('x')
    },
  },
  'snapshot of what has gone': {
    title: '[PROV7] a snapshot outlives its sandbox',
    run: async ({ newSpec, newSnapshotId, start, stop, ended, take }) => {
      const [spec, snapshotId] = [newSpec(), newSnapshotId()]
      await start(spec)
      const taken = await take(spec, snapshotId)
      await stop(spec)
      await ended(spec)
      expect(await take(spec, snapshotId)).toEqual(taken)
      const late = await take(spec, newSnapshotId()).catch((error: unknown) => error)
      expect(['not_found', 'wrong_state']).toContain(errorCodeOf(late))
    },
  },
  'snapshot with a secret in it': {
    title: '[PROV8] a snapshot is refused for a secret in it, naming file and secret',
    run: async ({ newSpec, newSnapshotId, start, write, read, take, expectNotFound }) => {
      const [spec, snapshotId] = [newSpec(), newSnapshotId()]
      await start(spec)
      await write(spec, 'notes.txt', `the key is ${secret.value}\n`)
      const error = await take(spec, snapshotId, { secrets: [secret] }).catch(
        (refusal: unknown) => refusal as Error,
      )
      expect(errorCodeOf(error)).toBe('unprocessable')
      const { message } = error as Error
      for (const part of ['notes.txt', secret.name]) expect(message).toContain(part)
      expect(message).not.toContain(secret.value)
      expect(await read(spec, 'notes.txt')).toContain(secret.value)
      await expectNotFound(newSpec({ snapshotId }))
    },
  },
  'snapshot without generated files': {
    title: '[PROV8] generated files are not in a snapshot',
    run: async ({ newSpec, newSnapshotId, start, write, read, take }) => {
      const [spec, snapshotId] = [newSpec(), newSnapshotId()]
      await start(spec)
      await write(spec, '.env.local', `KEY=${secret.value}\n`)
      await write(spec, 'kept.txt', 'kept')
      await take(spec, snapshotId, { secrets: [secret], generatedFiles: ['.env.local'] })
      expect(await read(spec, '.env.local')).toContain(secret.value)
      const copy = newSpec({ snapshotId })
      await start(copy)
      expect(await read(copy, '.env.local')).toBeNull()
      expect(await read(copy, 'kept.txt')).toBe('kept')
    },
  },
  restore: {
    title: '[PROV9] a sandbox that starts from a snapshot has its files and an agent of its own',
    run: async ({ newSpec, newSnapshotId, start, stop, ended, write, read, take, tokens }) => {
      const [spec, snapshotId] = [newSpec(), newSnapshotId()]
      await start(spec)
      await write(spec, 'src/deep/a.txt', 'work')
      await take(spec, snapshotId)
      await stop(spec)
      await ended(spec)
      const next = newSpec({ sessionId: spec.sessionId, generation: 2, snapshotId })
      const copy = newSpec({ snapshotId })
      for (const each of [next, copy]) {
        await start(each)
        expect(await read(each, 'src/deep/a.txt')).toBe('work')
        expect(await tokens(each)).toEqual([each.token])
        await write(each, 'src/deep/a.txt', 'changed') // of its own copy
      }
    },
  },
  'snapshot of another organisation': {
    title: '[PROV9] another organisation’s snapshot is not found',
    run: async ({ provider, newSpec, newSnapshotId, start, take, expectNotFound }) => {
      const [spec, snapshotId] = [newSpec(), newSnapshotId()]
      await start(spec)
      const foreign = { organisationId: otherOrganisation }
      await expect(take(spec, newSnapshotId(), foreign)).rejects.toMatchObject({
        code: 'not_found',
      })
      await take(spec, snapshotId)
      await provider.deleteSnapshot(otherOrganisation, snapshotId)
      await expectNotFound(newSpec({ ...foreign, snapshotId }))
      await start(newSpec({ snapshotId }))
    },
  },
  'delete a snapshot': {
    title: '[PROV9] a deleted snapshot is gone; again is success',
    run: async ({ provider, newSpec, newSnapshotId, start, take, expectNotFound }) => {
      const [spec, snapshotId] = [newSpec(), newSnapshotId()]
      await start(spec)
      await take(spec, snapshotId)
      for (const id of [snapshotId, snapshotId, newSnapshotId()])
        await provider.deleteSnapshot(organisation, id)
      await expectNotFound(newSpec({ snapshotId }))
    },
  },
} satisfies Record<string, SandboxCase>
