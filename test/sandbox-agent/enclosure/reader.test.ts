import { execFileSync } from 'node:child_process'
import { appendFileSync, existsSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findMarked } from '../../../sandbox-agent/marked-processes.ts'
import { openReader } from '../support.ts'
import type { Read, WasRead } from './enclosed-main.ts'
import { kinds, makePlace, start, uid } from './place.ts'
import { isRoot } from '../../support/needs.ts'

const limits = { environment: { PATH: process.env['PATH'] ?? '' }, timeoutMs: 20_000 }

describe.each(kinds)('what the agent reads, made by %s', (kind) => {
  const place = makePlace(kind)
  const { box } = place
  const workspace = join(box, 'workspace')
  let was: Record<string, WasRead>

  beforeAll(async () => {
    makeTrap(workspace)
    const bash = (script: string): string[] => ['bash', '-c', script]
    const reads: Record<string, Read> = {
      who: { line: bash('id -u; pwd; grep -E "CapEff|NoNewPrivs" /proc/self/status'), folder: box },
      files: { line: ['cat', join(box, 'agent', 'token')] },
      network: {
        line: bash('wc -l </proc/net/route; for p in 4000 4001; do : </dev/tcp/127.0.0.1/$p; done'),
      },
      processes: { line: bash('ls /proc | grep -c "^[0-9]"') },
      git: { line: ['git', 'status', '--porcelain'], folder: workspace },
      settings: { line: ['git', 'config', '--get', 'core.hooksPath'], folder: workspace },
      input: { line: ['cat'], input: 'from the agent' },
      much: { line: ['yes'], maxBytes: 10 },
      counted: { line: ['seq', '1000'], maxBytes: 10, beyond: 'count' },
      slow: { line: bash('sleep 600 & sleep 600'), timeoutMs: 300 },
      ended: { line: ['kill', '-9', '--', '-1'] },
      after: { line: ['echo', 'again'] },
      sqlite: {
        line: [process.execPath, '--input-type=module'],
        input: sqliteScript(join(box, 'home', 'store.db')),
      },
    }
    const child = start(kind, { ...place.order, script: '', reads: Object.values(reads) })
    const done = JSON.parse(await text(child.stdout)) as WasRead[]
    was = Object.fromEntries(Object.keys(reads).map((name, n) => [name, done[n] as WasRead]))
  }, 60_000)
  afterAll(place.remove)

  test('[WALL15] it runs as the user of OpenCode, where it is told to, without any right', () => {
    const user = isRoot ? uid : process.getuid?.()
    expect(was['who']?.output).toBe(`${user}\n${box}\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n`)
  })

  test('[WALL15] it sees neither the agent nor a process of anybody, and has no network at all', () => {
    expect(was['files']).toMatchObject({ code: 1, output: '' })
    expect(was['files']?.errors).toContain('No such file')
    expect(Number(was['processes']?.output)).toBeLessThan(8)
    expect(was['network']?.output).toBe('1\n')
    expect(was['network']?.errors.match(/400[01]: Connection refused/g)).toHaveLength(2)
  })

  test('[WALL15] git runs none of the programs that a repository names for it', () => {
    expect(was['git']).toMatchObject({ code: 0, output: '?? a.txt\n' })
    expect(existsSync(join(workspace, 'ran'))).toBe(false)
    expect(was['settings']?.output).toBe('/dev/null\n')
  })

  test('[WALL15] a script of the agent comes by its input, and reads a database', () => {
    expect(was['input']?.output).toBe('from the agent')
    expect(was['sqlite']).toMatchObject({ code: 0, output: '[{"x":1}]\n' })
  })

  test('[WALL15] what prints too much or takes too long is ended, with all that it has started', async () => {
    expect(was['much']).toMatchObject({ code: null, output: 'y\n'.repeat(5) })
    expect(was['counted']).toMatchObject({ code: 0, output: '1\n2\n3\n4\n5\n', bytes: 3893 })
    expect(was['slow']?.code).toBeNull()
    // The walls, too: their agent is gone.
    await expect.poll(() => findMarked(place.marked)).toEqual([])
  })

  test('[WALL15] walls that have ended meanwhile are built anew', () => {
    expect(was['after']).toMatchObject({ code: 0, output: 'again\n' })
  })
})

/** Whoever looks at its state runs a program of its own, unless git is told otherwise. */
function makeTrap(workspace: string): void {
  const program = join(workspace, '.git', 'trap')
  execFileSync('git', ['init', '-q', workspace])
  writeFileSync(program, `#!/bin/sh\n: >'${workspace}/ran'\n`, { mode: 0o755 })
  const settings = `[core]\n  fsmonitor = ${program}\n  hooksPath = ${dirname(program)}\n`
  appendFileSync(join(workspace, '.git', 'config'), settings)
  writeFileSync(join(workspace, 'a.txt'), 'a')
  if (isRoot) execFileSync('chown', ['-R', `${uid}:${uid}`, workspace])
}

const sqliteScript = (file: string) => `import { DatabaseSync } from 'node:sqlite'
const database = new DatabaseSync(${JSON.stringify(file)})
database.exec('CREATE TABLE t (x); INSERT INTO t VALUES (1)')
console.log(JSON.stringify(database.prepare('SELECT x FROM t').all()))`

test('[WALL15] without walls it is the same program, started by the agent', async () => {
  const ran = await openReader().run('cat', [], { ...limits, input: 'x', maxBytes: 10 })
  expect(ran).toMatchObject({ code: 0, bytes: 1, errors: '' })
})
