import { existsSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { StreamLog } from '../../../sandbox-agent/workspace/stream-log.ts'

function setUp() {
  const root = mkdtempSync(join(tmpdir(), 'gantry-stream-log-'))
  const workspace = join(root, 'workspace')
  mkdirSync(workspace)
  const log = new StreamLog()
  const place = { workspace, owner: undefined }
  const emitted: unknown[] = []
  const tell = log.tee((kind, data) => void emitted.push([kind, data]))
  const lines = (path: string) =>
    readFileSync(join(workspace, path), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
  return { root, workspace, log, place, tell, emitted, lines }
}

describe('[EVR22] the log of an attempt', () => {
  test('has each event as a line, goes on where it is opened again, and passes every event on', () => {
    const { log, place, tell, emitted, lines, workspace } = setUp()
    expect(log.open('a/b/x.log', place)).toEqual({ file: 'a/b/x.log' })
    tell('agent.notice', { message: 'one' })
    expect(log.open(`${workspace}/a/./b/x.log`, place)).toEqual({ file: 'a/b/x.log' })
    tell('agent.notice', { message: 'two' })
    expect(lines('a/b/x.log')).toMatchObject([
      { kind: 'agent.notice', data: { message: 'one' } },
      { kind: 'agent.notice', data: { message: 'two' } },
    ])
    expect(emitted).toHaveLength(2)
    log.close()
    tell('agent.notice', { message: 'three' })
    expect([lines('a/b/x.log').length, emitted.length]).toEqual([2, 3])
  })

  test('is nowhere but in the workspace, also where that has links', () => {
    const { root, workspace, log, place, tell, emitted } = setUp()
    mkdirSync(join(root, 'outside'))
    symlinkSync(join(root, 'outside'), join(workspace, 'link'))
    symlinkSync(join(root, 'outside', 'target.log'), join(workspace, 'file.log'))
    const paths = [
      '../outside/x.log',
      `${root}/outside/x.log`,
      'link/x.log',
      'a/../../x.log',
      'file.log',
    ]
    for (const path of paths)
      expect([path, log.open(path, place)]).toEqual([
        path,
        { problem: expect.stringContaining(`Cannot write the log "${path}"`) },
      ])
    tell('agent.notice', { message: 'goes on' })
    expect(emitted).toHaveLength(1)
    for (const name of ['x.log', 'target.log'])
      expect([name, existsSync(join(root, 'outside', name))]).toEqual([name, false])
  })
})
