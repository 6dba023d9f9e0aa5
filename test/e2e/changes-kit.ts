import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect } from 'vitest'
import type { ScriptCall, ScriptStep } from '../../local/model/scripted-model.ts'
import type {
  ChangesRejected,
  FileReview,
  RejectedFile,
  RunChanges,
} from '../../src/contract/change-ledger.ts'
import type { OperationRecord } from '../../src/contract/operation.ts'
import type { Turn } from '../../src/contract/turn.ts'
import { request } from '../support/stack.ts'
import { resolve } from './policy-kit.ts'
import { type Box, until } from './support.ts'

// Changes of the real OpenCode in mode full: what is shown as before and after is what git says of OpenCode's own trees.

export const fullMode = {
  env: { OPENCODE_SNAPSHOT_PROOF_UPGRADE: 'full', GANTRY_MODEL: 'scripted,scripted-gpt-5' },
}

export const call = (name: string, args: Record<string, unknown>): ScriptCall => ({ name, args })
export const change = (filePath: string, oldString: string, newString: string): ScriptCall =>
  call('edit', { filePath, oldString, newString })
export const step = (...calls: ScriptCall[]): ScriptStep => ({ calls })
export const patch = (...lines: string[]): ScriptStep =>
  step(
    call('apply_patch', { patchText: ['*** Begin Patch', ...lines, '*** End Patch'].join('\n') }),
  )

const get = async <T>(box: Box, path: string) =>
  (await request('GET', `${box.stack.url}${path}`, box.stack.adminKey)).json as T

/** Once everything that was asked for is there. */
export async function changesOf(box: Box, { runId }: Pick<Turn, 'runId'>): Promise<RunChanges> {
  return until('the turn is collected', 20_000, async () => {
    const changes = await get<RunChanges>(box, `/v1/runs/${runId}/changes`)
    const { collects } = changes
    return collects.length > 0 && collects.every(({ state }) => state !== 'asked') && changes
  })
}

export async function run(box: Box, steps: ScriptStep[]) {
  const turn = await box.run(steps)
  return { turn, changes: await changesOf(box, turn) }
}

/** The turn is held before its last answer, while `meanwhile` does something to the sandbox. */
export async function runAnd(box: Box, steps: ScriptStep[], meanwhile: () => void) {
  const turn = await box.prompt([...steps, { text: 'Done.', stallMs: 4000 }])
  await until(
    'its tools have run',
    20_000,
    async () => (await box.eventsIn(turn, 'step.finished')).length === steps.length,
  )
  meanwhile()
  await box.ended(turn)
  return { turn, changes: await changesOf(box, turn) }
}

export async function textOf(box: Box, link: FileReview['before']): Promise<string | null> {
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

export function storesOf(box: Box): string[] {
  const top = box.folder('home/.local/share/opencode/snapshot')
  return readdirSync(top).flatMap((project) =>
    readdirSync(join(top, project)).map((name) => join(top, project, name)),
  )
}

/** Whatever snapshots prove, against the trees that they name: of a chain its first text and its last. */
export async function expectGitSays(box: Box, { files }: RunChanges): Promise<void> {
  let compared = 0
  for (const { path, events } of files)
    for (const [id, chain] of Map.groupBy(events, ({ event }) => event.snapshotId)) {
      if (id === null) continue
      const [from = '', to = ''] = id.split('..')
      expect(await textOf(box, chain[0]?.before ?? null)).toBe(gitText(box, from, path))
      expect(await textOf(box, chain.at(-1)?.after ?? null)).toBe(gitText(box, to, path))
      compared += 1
    }
  expect(compared).toBeGreaterThan(0)
}

export const shape = ({ files }: RunChanges) =>
  files.map(({ path, operation, rejectable, events }) => ({
    ...{ path, operation, rejectable },
    proofs: events.map(({ event }) => event.evidenceProof),
  }))

export const codesOf = ({ collects }: RunChanges): string[] =>
  collects.flatMap(({ diagnostics }) => diagnostics.map(({ code }) => code))

/** Opens OpenCode's own database, as whoever works in the sandbox could. */
export function inDatabase(box: Box, work: (db: DatabaseSync) => void): void {
  const db = new DatabaseSync(box.folder('home/.local/share/opencode/opencode.db'))
  try {
    db.exec('pragma busy_timeout = 5000')
    work(db)
  } finally {
    db.close()
  }
}

export async function reject(
  box: Box,
  { runId }: Pick<Turn, 'runId'>,
  body: object = { all: true },
): Promise<RejectedFile[]> {
  const url = `${box.stack.url}/v1/runs/${runId}/changes/reject`
  const answer = await request('POST', url, box.stack.adminKey, body)
  expect([answer.status, answer.text]).toEqual([202, expect.any(String)])
  return (answer.json as ChangesRejected).files
}

/** Approved by another and resumed: the agent gets it. */
export async function allow(box: Box, file: RejectedFile | undefined, key: string): Promise<void> {
  const id = file?.approvalId ?? expect.fail('It asks nobody')
  expect((await resolve(box, { id }, 'approved', {}, key)).status).toBe(200)
  const url = `${box.stack.url}/v1/approvals/${id}/resume`
  expect((await request('POST', url, box.stack.adminKey)).status).toBe(200)
}

/** Once the agent has said how it went. */
export const attempted = (box: Box, file: RejectedFile | undefined) =>
  until('the reject is settled', 30_000, async () => {
    const path = `/v1/operations/${file?.operationId}?wait=10`
    const { attempts } = await get<OperationRecord>(box, path)
    return attempts.at(-1)?.status !== 'reserved' && attempts.at(-1)
  })
