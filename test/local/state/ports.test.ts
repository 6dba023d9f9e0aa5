import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { choosePorts, freePort } from '../../../local/state/ports.ts'

test('[HOST1] a process is given no port twice, also if nobody listens there yet', async () => {
  const ports: number[] = []
  while (ports.length < 700) ports.push(await freePort())
  expect(new Set(ports).size).toBe(ports.length)
})

test('[HOST1] a second start keeps its ports, but for one that another process has taken', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-ports-'))
  const first = await choosePorts(folder, ['api', 'libsql'])
  expect(await choosePorts(folder, ['api'])).toEqual(first)
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(first.api, '127.0.0.1', resolve))
  const second = await choosePorts(folder, ['api', 'libsql'])
  await new Promise((resolve) => server.close(resolve))
  rmSync(folder, { recursive: true })
  expect(second.libsql).toBe(first.libsql)
  expect(second.api).not.toBe(first.api)
})

test('[HOST1] no two parts of a stack share a port, whatever was kept', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-ports-'))
  const { api } = await choosePorts(folder, ['api'])
  writeFileSync(join(folder, 'ports.json'), JSON.stringify({ api, model: api }))
  const again = await choosePorts(folder, ['api', 'model'])
  rmSync(folder, { recursive: true })
  expect(again.api).toBe(api)
  expect(again.model).not.toBe(api)
})
