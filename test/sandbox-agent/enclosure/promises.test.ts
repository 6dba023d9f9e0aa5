import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { root } from '../../../local/binaries.ts'
import { isRoot } from '../../support/needs.ts'
import type { Outcome, WasRead } from './enclosed-main.ts'
import { type Kind, makePlace, run, start } from './place.ts'

// The table of promises at the end of SPEC's area WALL: what it claims for a sandbox of this machine is shown here, cell
// by cell, or by the test that is named here; what it does not claim is "not claimed".

const levels = ['full', 'uid', 'none'] as const
type Level = (typeof levels)[number]

/** The first words of a row. */
const rows = {
  state: "the stack's state and the admin key",
  token: "the agent's folder and the session's token",
  neighbours: 'other sandboxes cannot',
  gate: "the gate's files cannot",
  egress: 'what leaves goes through the proxy',
  ports: "the host's ports and metadata",
  password: "OpenCode's password and the local token",
  others: 'the same for what OpenCode starts without bash',
  secrets: 'secret files that git does not track',
  injected: 'a secret that is injected',
  processes: 'processes are limited',
  memory: 'memory of one process',
  reads: 'what the agent reads of the sandbox with git',
  plugin: "the plugin is at the contract's place",
  outlives: 'nothing outlives',
} as const
type Row = keyof typeof rows

/** Shown by another test, whose title has these words. */
const elsewhere: Partial<Record<`${Row} ${Level}`, { file: string; title: string }>> = {
  'egress full': {
    file: 'test/sandbox-agent/enclosure/egress.test.ts',
    title: '[WALL11] refuses what the policy denies',
  },
  'injected full': {
    file: 'test/sandbox-agent/enclosure/upstreams.test.ts',
    title: '[WALL20] nothing inside can read the token',
  },
  'injected uid': {
    file: 'test/through/upstreams.test.ts',
    title: '[SEC12] is not given to the sandbox',
  },
  'injected none': {
    file: 'test/through/upstreams.test.ts',
    title: '[SEC12] is not given to the sandbox',
  },
  'processes full': {
    file: 'test/sandbox-agent/enclosure/enclosure.test.ts',
    title: 'neither processes nor the memory of one pass the limits',
  },
  'processes uid': { file: 'test/local/sandboxes/fleet.test.ts', title: '[LOC17]' },
  'memory full': {
    file: 'test/sandbox-agent/enclosure/enclosure.test.ts',
    title: 'the memory of all together does not pass the limit',
  },
  'memory uid': { file: 'test/local/sandboxes/fleet.test.ts', title: '[LOC17]' },
  'memory none': { file: 'test/local/sandboxes/fleet.test.ts', title: '[LOC17]' },
  'outlives full': { file: 'test/sandbox-agent/enclosure/enclosure.test.ts', title: '[WALL6]' },
  'outlives uid': { file: 'test/e2e/turns.test.ts', title: '[BOX7]' },
  'outlives none': { file: 'test/e2e/turns.test.ts', title: '[BOX7]' },
  'gate none': { file: 'test/e2e/gate.test.ts', title: '[BOX5]' },
  'plugin none': { file: 'test/e2e/gate.test.ts', title: '[BOX5]' },
}

const spec = readFileSync(join(root, 'SPEC.md'), 'utf8')
const table = (/\n\| promise \|[^]*?\n\n/.exec(spec)?.[0] ?? '')
  .trim()
  .split('\n')
  .slice(2)
  .map((line) => line.split(' | ').map((cell) => cell.replaceAll(/^\| | \|$/g, '').trim()))
const cellOf = (row: Row, level: Level): string => {
  const found = table.filter(([promise]) => promise?.startsWith(rows[row]))
  expect(found, row).toHaveLength(1)
  return found[0]?.[1 + levels.indexOf(level)] ?? ''
}
const tested = new Set<string>()

/** One claimed cell, or none: what the table does not claim is not looked at. */
function cell(row: Row, level: Level, show: () => void): void {
  tested.add(`${row} ${level}`)
  test(`[WALL21] ${rows[row]}: ${level}`, () => {
    expect(cellOf(row, level)).not.toBe('not claimed')
    show()
  })
}

const other = randomInt(60_001, 64_000)
const trap = '[core]\n\tfsmonitor = "touch /tmp/fsmonitor-ran; false"\n\thooksPath = hooks\n'

/** A sandbox at this level, with the file modes that the stack gives, and what everything in it got. */
function useLevel(level: Level) {
  const kind: Kind = level === 'none' ? 'an ordinary user' : 'root'
  const place = makePlace(kind)
  const { box, order } = place
  const asSet = level === 'full' ? {} : { enclosure: 'off' as const }
  const manifest = { ...order.manifest, ...asSet }
  const server = createServer((socket) => socket.end('the host'))
  let neighbour: ReturnType<typeof spawn>
  let outcome: Outcome
  let reads: WasRead[]
  beforeAll(async () => {
    if (isRoot && kind === 'root') {
      chmodSync(join(place.root, 'admin-key'), 0o600)
      chmodSync(join(box, 'agent'), 0o700)
      chownSync(join(place.root, 'sandboxes/two'), other, other)
      chmodSync(join(place.root, 'sandboxes/two'), 0o700)
      chownSync(join(place.root, 'sandboxes/two/file'), other, other)
    }
    const asOther = isRoot && kind === 'root' ? { uid: other, gid: other } : {}
    neighbour = spawn('sleep', ['60'], { stdio: 'ignore', ...asOther })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    mkdirSync(join(box, 'workspace/sub'), { recursive: true })
    writeFileSync(join(box, 'workspace/sub/.env'), 'HIDDEN=1\n', { mode: 0o644 })
    const script = `exec 2>&1
echo "<state>"; cat '${place.root}/admin-key'; echo "</state>"
echo "<token>"; cat '${box}/agent/token'; echo "</token>"
echo "<neighbours>"; cat '${place.root}/sandboxes/two/file'; kill -0 ${neighbour.pid} && echo signalled; echo "</neighbours>"
echo "<gate>"; echo x >'${box}/config/plugin.mjs'; mv '${box}/config' '${box}/c2'; cat '${box}/config/plugin.mjs'; echo "</gate>"
echo "<ports>"; for h in 127.0.0.1/${port} 169.254.169.254/80; do "$SHELL" -c "exec 3<>/dev/tcp/$h && cat <&3"; done; echo "</ports>"
echo "<password>"; "$SHELL" -c 'cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" | grep -a "PASSWORD=\\|LOCALTOKEN"'; echo "</password>"
echo "<secrets>"; grep -r HIDDEN sub; echo "</secrets>"
echo "<plugin>"; cat ~/.config/opencode/opencode.json; echo x >"$(sed 's/.*"\\(.*proliferate.mjs\\)".*/\\1/' ~/.config/opencode/opencode.json)"; echo "</plugin>"`
    const asked = {
      ...order,
      manifest,
      script,
      environment: { ...order.environment, SHELL: '/bin/bash' },
    }
    outcome = await run(kind, asked)
    const line = [
      'sh',
      '-c',
      `cd "$1" && git init -q . && printf '%s' "$2" >>.git/config && git status --porcelain | wc -l; ls /tmp/fsmonitor-ran 2>/dev/null`,
      'sh',
      join(box, 'home'),
      trap,
    ]
    reads = JSON.parse(await text(start(kind, { ...asked, reads: [{ line }] }).stdout)) as WasRead[]
  }, 60_000)
  afterAll(async () => {
    server.close()
    neighbour?.kill('SIGKILL')
    await place.remove()
  })
  return {
    level: () => outcome.report.level,
    said: (name: Row) =>
      outcome.output.split(`<${name}>\n`)[1]?.split(`</${name}>`)[0] ?? outcome.output,
    read: () => reads[0],
  }
}

const refused = /Permission denied|No such file|Read-only|cannot|busy/

describe.runIf(isRoot)('full', () => {
  const { level, said, read } = useLevel('full')
  test('[WALL8] is what it is', () => expect(level()).toBe('full'))
  cell('state', 'full', () => expect(said('state')).toMatch(/No such file/))
  cell('token', 'full', () => expect(said('token')).toMatch(/No such file/))
  cell('neighbours', 'full', () =>
    expect(said('neighbours')).toMatch(/No such file[^]*No such process/),
  )
  cell('gate', 'full', () => expect(said('gate')).toMatch(/Read-only[^]*the gate\n$/))
  cell('ports', 'full', () => expect(said('ports')).not.toContain('the host'))
  cell('password', 'full', () => expect(said('password')).toBe(''))
  cell('secrets', 'full', () => expect(said('secrets')).toBe(''))
  cell('reads', 'full', () => expect(read()?.output.trim()).toMatch(/^\d+$/))
  cell('plugin', 'full', () =>
    expect(said('plugin')).toMatch(/home\/\.config\/opencode\/plugin[^]*Read-only/),
  )
})

describe.runIf(isRoot)('uid', () => {
  const { level, said, read } = useLevel('uid')
  test('[WALL8] is what it is', () => expect(level()).toBe('uid'))
  cell('state', 'uid', () => expect(said('state')).toMatch(refused))
  cell('token', 'uid', () => expect(said('token')).toMatch(refused))
  cell('neighbours', 'uid', () => {
    expect(said('neighbours')).toMatch(refused)
    expect(said('neighbours')).not.toMatch(/signalled|TOP SECRET/)
  })
  cell('gate', 'uid', () => expect(said('gate')).toMatch(/Permission denied[^]*the gate\n$/))
  cell('reads', 'uid', () => expect(read()?.output.trim()).toMatch(/^\d+$/))
  cell('plugin', 'uid', () =>
    expect(said('plugin')).toMatch(/config\/plugin\/proliferate\.mjs[^]*Permission denied/),
  )
})

describe('none', () => {
  const { level, read } = useLevel('none')
  test('[WALL8] is what it is', () => expect(level()).toBe('none'))
  cell('reads', 'none', () => expect(read()?.output.trim()).toMatch(/^\d+$/))
})

describe('the table', () => {
  const cells = (Object.keys(rows) as Row[]).flatMap((row) =>
    levels.map((level) => [row, level, `${row} ${level}` as const] as const),
  )

  test('[WALL21] has no promise that this file does not know', () => {
    expect(table).toHaveLength(Object.keys(rows).length)
  })

  test.each(cells)('[WALL21] %s, %s: a test, or "not claimed"', (row, level, name) => {
    const said = cellOf(row, level)
    if (said === 'not claimed')
      return expect([tested.has(name), elsewhere[name]]).toEqual([false, undefined])
    // Every claim names its rule.
    expect(said).toMatch(/\([A-Z0-9]+\d+/)
    const shown = elsewhere[name]
    if (shown) expect(readFileSync(join(root, shown.file), 'utf8')).toContain(shown.title)
    else expect(tested).toContain(name)
  })

  test('[WALL21] claims nothing of its own for machines of vendors', () => {
    for (const [promise, , , , vendors] of table)
      expect(vendors, promise).toMatch(
        /where full|machine|not claimed|nothing of it is there|SEC12/,
      )
  })
})
