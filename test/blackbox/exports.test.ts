import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { binary, root } from '../../local/binaries.ts'
import { hosts, useStack } from '../support/stack.ts'

const verifier = join(root, 'local', 'verify', 'main.ts')
/** The verifier on either runtime, without the network. */
const runtimes = {
  node: ['--no-warnings', verifier],
  deno: ['run', '--no-remote', '--allow-read', '--allow-env', verifier],
} as const

describe.each(hosts)('an export of %s', (host) => {
  const stack = useStack(host)

  test('[EXP14] holds for the verifier on Node and on Deno, and a changed byte does not', async () => {
    const run = await stack().api('POST', '/v1/runs', { intent: 'count the files' })
    await stack().api('POST', `/v1/runs/${run.json.id}/events`, { kind: 'memory.read' })
    const folder = mkdtempSync(join(tmpdir(), 'gantry-export-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const response = await fetch(`${stack().url}/v1/runs/${run.json.id}/bundle`, {
      headers: { authorization: `Bearer ${stack().adminKey}` },
    })
    const text = await response.text()
    const keys = await stack().api('GET', '/.well-known/gantry-keys.json')
    const [good, bad, set] = ['good', 'bad', 'keys'].map((name) => join(folder, name)) as [
      ...[string, string, string],
    ]
    writeFileSync(good, text)
    writeFileSync(bad, text.replace('"kind":"memory.read"', '"kind":"memory.rest"'))
    writeFileSync(set, keys.text)
    for (const [name, args] of Object.entries(runtimes)) {
      const verify = (file: string) => {
        const command = binary(name as keyof typeof runtimes)
        const { status, stdout } = spawnSync(command, [...args, file, '--keys', set], {
          ...{ cwd: root, encoding: 'utf8' },
        })
        return [status, stdout]
      }
      expect(verify(good)).toEqual([0, expect.stringMatching(/Signature holds .*\nVerdict holds/)])
      expect(verify(bad)).toEqual([1, expect.stringContaining('DOES NOT HOLD, first at line 4')])
    }
  })
})
