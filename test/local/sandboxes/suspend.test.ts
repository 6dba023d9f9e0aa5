import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { claimUids } from '../../../local/users/uids.ts'
import { sessionIds, startBench } from '../snapshots/snapshot-kit.ts'
import { until } from '../support.ts'

const night = 30 * 3600_000

test('[LIFE27] the sandbox host adds the time in which the machine slept to the lifetime of what runs', async () => {
  const claim = claimUids()
  onTestFinished(() => claim?.release())
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const { start, provider } = await startBench(claim?.uids)
  const [one = ''] = sessionIds
  const box = await start(one)
  const record = join(dirname(box.workspace), 'record.json')
  const endsAt = () => (JSON.parse(readFileSync(record, 'utf8')) as { endsAt: number }).endsAt
  const before = endsAt()
  expect(before).toBeLessThan(Date.now() + night)
  vi.setSystemTime(Date.now() + night)
  await until(() => endsAt() > before)
  expect(endsAt() - before).toBeGreaterThan(night - 60_000)
  expect((await provider.get(one, 1))?.state).toBe('running')
  // Once: the next look is a second later.
  const after = endsAt()
  vi.setSystemTime(Date.now() + 2000)
  await until(async () => (await provider.get(one, 1))?.state === 'running')
  expect(endsAt()).toBe(after)
})
