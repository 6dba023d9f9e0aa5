import { execFileSync } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { script, type ScriptCall, type ScriptStep } from '../../local/model/scripted-model.ts'
import type { FileReview, RunChanges } from '../../src/contract/change-ledger.ts'
import type { Turn } from '../../src/contract/turn.ts'
import { request } from '../support/stack.ts'
import { isLong } from '../support/long.ts'
import { bash, type Box, until, useBox, useRealStack, write } from './support.ts'

// With the real OpenCode in mode full: what is shown as before and after is what git says of OpenCode's own trees.

const stack = useRealStack('workerd', () => ({
  env: { OPENCODE_SNAPSHOT_PROOF_UPGRADE: 'full', GANTRY_MODEL: 'scripted,scripted-gpt-5' },
}))

const call = (name: string, args: Record<string, unknown>): ScriptCall => ({ name, args })
const change = (filePath: string, oldString: string, newString: string): ScriptCall =>
  call('edit', { filePath, oldString, newString })
const step = (...calls: ScriptCall[]): ScriptStep => ({ calls })

async function changesOf(box: Box, { runId }: Turn): Promise<RunChanges> {
  const url = `${box.stack.url}/v1/runs/${runId}/changes`
  return until('the turn is collected', 20_000, async () => {
    const changes = (await request('GET', url, box.stack.adminKey)).json as RunChanges
    const { collects } = changes
    return collects.length > 0 && collects.every(({ state }) => state !== 'asked') && changes
  })
}

async function textOf(box: Box, link: FileReview['before']): Promise<string | null> {
  if (link === null) return null
  return (await request('GET', `${box.stack.url}${link.url}`, box.stack.adminKey)).text
}

/** What git says of a file in one of the trees. Null: it is not in it. */
function gitText(box: Box, tree: string, path: string): string | null {
  const [gitDir] = storesOf(box)
  try {
    return execFileSync('git', [`--git-dir=${gitDir}`, 'show', `${tree}:${path}`], {
      ...{ encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
    })
  } catch {
    return null
  }
}

function storesOf(box: Box): string[] {
  const top = box.folder('home/.local/share/opencode/snapshot')
  return readdirSync(top).flatMap((project) =>
    readdirSync(join(top, project)).map((name) => join(top, project, name)),
  )
}

/** Every proven event against the trees that its snapshot id names. */
async function expectGitSays(box: Box, { files }: RunChanges): Promise<void> {
  for (const { events } of files)
    for (const { event, before, after } of events) {
      if (event.evidenceProof !== 'opencode-snapshot') continue
      const [from = '', to = ''] = event.snapshotId?.split('..') ?? []
      const { relativePath: path } = event
      expect(await textOf(box, before)).toBe(gitText(box, from, path))
      expect(await textOf(box, after)).toBe(gitText(box, to, path))
    }
}

const shape = ({ files }: RunChanges) =>
  files.map(({ path, operation, rejectable, events }) => ({
    ...{ path, operation, rejectable },
    proofs: events.map(({ event }) => event.evidenceProof),
  }))

const run = async (box: Box, steps: ScriptStep[]) => {
  const turn = await box.run(steps)
  return { turn, changes: await changesOf(box, turn) }
}

describe('write and edit', () => {
  const only = useBox(stack, () => ({ title: 'changes' }))

  test('[CHG1] [CHG5] write creates and modifies, edit replaces, two edits are a chain, bash is nobody’s', async () => {
    const box = only()
    const { changes } = await run(box, [
      write('a.txt', 'one\ntwo\n'),
      write('a.txt', 'one\ntwo\nthree\n'),
      step(change('a.txt', 'two', '$& zwei')),
      step(change('a.txt', 'one', 'uno'), change('a.txt', 'three', 'tres')),
      bash('echo four >> a.txt'),
      { text: 'Done.' },
    ])
    expect(changes.mismatches).toBe(0)
    expect(shape(changes)).toEqual([
      {
        ...{ path: 'a.txt', operation: 'create', rejectable: true },
        proofs: [
          ...[expect.stringMatching(/toolpart-chain|opencode-snapshot/), expect.any(String)],
          ...[expect.any(String), expect.any(String), expect.any(String)],
        ],
      },
    ])
    const [file] = changes.files
    expect(file?.events.every(({ reviewable }) => reviewable)).toBe(true)
    expect(await textOf(box, file?.after ?? null)).toBe('uno\n$& zwei\ntres\n')
    await expectGitSays(box, changes)
  })

  test('[CHG9] a sub-agent’s change is there once, by its own name', async () => {
    const inner = script([write('sub.txt', 'by sub\n'), { text: 'Written.' }])
    const { changes } = await run(only(), [
      step(
        call('task', {
          ...{ description: 'sub', prompt: `Do it.\n${inner}`, subagent_type: 'general' },
        }),
      ),
      { text: 'Done.' },
    ])
    expect(changes.mismatches).toBe(0)
    expect(changes.files).toMatchObject([
      { path: 'sub.txt', operation: 'create', events: [{ event: { memberName: 'general' } }] },
    ])
    expect(changes.files[0]?.events).toHaveLength(1)
  })

  test('[CHG3] a failed edit is no change, and what cannot be proven is kept as such', async () => {
    const { changes } = await run(only(), [
      step(change('nope.txt', 'x', 'y')),
      bash('printf "x\\n" > by-bash.txt'),
      { text: 'Done.' },
    ])
    expect(changes.files).toEqual([])
    expect(changes.collects).toMatchObject([{ state: 'stored', candidates: 0 }])
  })

  test('[CHG3] snapshots that a nested repository has stopped prove nothing', async () => {
    const box = only()
    const { changes } = await run(box, [
      write('frozen.txt', 'before\n'),
      bash('mkdir nested && git -C nested init -q && echo x > nested/x'),
      step(change('frozen.txt', 'before', 'after')),
      write('frozen.txt', 'at last\n'),
      { text: 'Done.' },
    ])
    const events = changes.files.find(({ path }) => path === 'frozen.txt')?.events
    expect(events?.slice(1).map(({ event }) => event.evidenceProof)).toEqual([
      'metadata-only-fallback',
      'metadata-only-fallback',
    ])
    expect(changes.files.every(({ rejectable }) => !rejectable)).toBe(true)
    const codes = changes.collects.flatMap(({ diagnostics }) => diagnostics.map(({ code }) => code))
    expect(codes).toContain('snapshot-frozen')
    rmSync(box.folder('workspace/nested'), { recursive: true })
  })
})

describe.runIf(isLong)('apply_patch', () => {
  const only = useBox(stack, () => ({ title: 'patches', model: 'scripted-gpt-5' }))
  const patch = (...lines: string[]): ScriptStep =>
    step(
      call('apply_patch', { patchText: ['*** Begin Patch', ...lines, '*** End Patch'].join('\n') }),
    )

  test('[CHG5] adds, updates and deletes (long run)', async () => {
    const box = only()
    const { changes } = await run(box, [
      patch('*** Add File: p.txt', '+one', '+two', '*** Add File: q.txt', '+q'),
      patch('*** Update File: p.txt', '@@', ' one', '-two', '+zwei'),
      patch('*** Delete File: q.txt'),
      { text: 'Done.' },
    ])
    expect(changes.mismatches).toBe(0)
    expect(shape(changes)).toMatchObject([
      { path: 'p.txt', operation: 'create', rejectable: true },
      { path: 'q.txt', operation: 'none', rejectable: true },
    ])
    await expectGitSays(box, changes)
  })

  test('[CHG3] objects that are gone prove nothing (long run)', async () => {
    const box = only()
    const [gitDir = ''] = storesOf(box)
    const turn = await box.prompt([
      patch('*** Update File: p.txt', '@@', ' one', '-zwei', '+drei'),
      { text: 'Done.', stallMs: 3000 },
    ])
    await until(
      'the patch is applied',
      20_000,
      async () => (await box.eventsIn(turn, 'tool.completed'))[0],
    )
    for (const name of readdirSync(join(gitDir, 'objects')))
      if (name !== 'info') rmSync(join(gitDir, 'objects', name), { recursive: true })
    await box.ended(turn)
    const changes = await changesOf(box, turn)
    expect(changes.files).toMatchObject([{ path: 'p.txt', rejectable: false }])
    const codes = changes.collects.flatMap(({ diagnostics }) => diagnostics.map(({ code }) => code))
    expect(codes).toContain('object-missing')
  })
})
