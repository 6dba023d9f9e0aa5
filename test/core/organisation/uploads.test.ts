import { expect, test } from 'vitest'
import { TestDeployment } from '../../support/organisation.ts'

const mebibyte = 1024 * 1024

test('[SES19] a session and all of them hold at most what they may, to the byte, and less is never refused', async () => {
  const world = new TestDeployment({ uploadMegabytesPerSession: 2, uploadMegabytes: 3 })
  const hold = async (sessionId: string, bytes: number) =>
    (await world.org.api.uploads.hold(sessionId, bytes)).refusal
  const held = () => world.sql().all('select session_id as id, bytes from uploads order by id')
  expect(await hold('a', 2 * mebibyte)).toBeNull()
  expect(await hold('a', 5 * mebibyte)).toBe(
    'Cannot store 3.0 MiB more: the session holds 2.0 MiB of uploads and artifacts, and 2 MiB are allowed (uploadMegabytesPerSession in GANTRY_LIMITS). Delete sessions that are not needed any more',
  )
  expect(await hold('b', mebibyte)).toBeNull()
  expect(await hold('b', 2 * mebibyte)).toContain(
    'Cannot store 1.0 MiB more: the organisation holds 3.0 MiB of uploads and artifacts, and 3 MiB are allowed (uploadMegabytes in',
  )
  expect(await hold('b', mebibyte + 1)).not.toBeNull()
  expect(await hold('b', mebibyte)).toBeNull()
  expect(held()).toMatchObject([
    { id: 'a', bytes: 2 * mebibyte },
    { id: 'b', bytes: mebibyte },
  ])
  // Stored when more was allowed.
  world.sql().run('update uploads set bytes = ? where session_id = ?', 9 * mebibyte, 'a')
  expect([await hold('a', 8 * mebibyte), await hold('a', 8 * mebibyte)]).toEqual([null, null])
  expect(await hold('c', 1)).not.toBeNull()
  expect(await hold('a', 0)).toBeNull()
  expect(held()).toMatchObject([{ id: 'b' }])
  expect(await hold('c', 2 * mebibyte)).toBeNull()
})
