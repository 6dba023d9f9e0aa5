// The part of the demo that runs one of the abilities that ship in examples/abilities: a release, whose tag a person allows.
// The demo's own key is that person. demo.ts calls it in its session.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionRecord } from '../../src/contract/execution.ts'
import { root } from '../binaries.ts'
import { script } from '../model/scripted-model.ts'

type Api = <T>(method: string, path: string, body?: object) => Promise<T>

interface AbilityDemo {
  api: Api
  sessionId: string
  project: string
  /** Whether its agent's prompt must carry a script. */
  scripted: boolean
  say: (what: string, text: string, ms?: number) => void
  /** Throws once the demo has taken too long. */
  mustGoOn: () => void
}

const notes = script([
  { text: '- A file that greets the reader, with its word count as evidence.' },
])

/** Throws unless all of its steps have completed, or the machine lets no key approve. */
export async function showAbility(demo: AbilityDemo): Promise<void> {
  const { api, sessionId, project, scripted, say } = demo
  const startedAt = Date.now()
  await api('PUT', '/v1/abilities', { project, files: filesOf('release') })
  const inputs = { version: 'v0.1.0', ...(scripted && { notes }) }
  const { id } = await api<ExecutionRecord>('POST', `/v1/sessions/${sessionId}/executions`, {
    ...{ ability: 'release', inputs },
  })
  say('ability', 'release v0.1.0 (examples/abilities/release)')
  const waiting = await stands(demo, id)
  const [question] = waiting.waitsFor
  if (!question?.approvalId) throw new Error(`The release does not ask: ${waiting.error ?? ''}`)
  for (const step of waiting.steps) tellStep(demo, step)
  const refusal = await approve(api, question.approvalId)
  if (refusal !== null) {
    await api('POST', `/v1/executions/${id}/cancel`, { reason: 'Nobody can approve it here' })
    return say('approval', refusal)
  }
  say('approval', 'the demo’s key has approved it')
  const ended = await stands(demo, id)
  for (const step of ended.steps.slice(waiting.completedSteps.length)) tellStep(demo, step)
  if (ended.status !== 'completed')
    throw new Error(`The release has ${ended.status}: ${ended.error}`)
  say('ability', `completed, ${ended.progress} steps`, Date.now() - startedAt)
}

/** Once it has ended, or waits for a person. */
async function stands({ api, mustGoOn }: AbilityDemo, id: string): Promise<ExecutionRecord> {
  for (;;) {
    const record = await api<ExecutionRecord>('GET', `/v1/executions/${id}?wait=5`)
    if (record.status !== 'running' || record.waitsFor.length > 0) return record
    mustGoOn()
  }
}

function tellStep({ say }: AbilityDemo, step: ExecutionRecord['steps'][number]): void {
  if (step.status === 'pending' || step.status === 'running') return
  const [line = ''] = (step.error ?? step.output ?? '').trim().split('\n')
  const ms = (step.completedAt ?? 0) - (step.startedAt ?? 0)
  say('step', `${step.stepId} ${step.status}: ${line}`.slice(0, 70), ms)
}

/** Null: it is approved. A machine without walls lets no key approve until its owner has said so. */
const approve = (api: Api, approvalId: string): Promise<string | null> =>
  api('POST', `/v1/approvals/${approvalId}/resolve`, { resolution: 'approved' }).then(
    () => null,
    (error: Error) => {
      if (error.message.includes('has no enclosure'))
        return 'left open: its sandbox has no enclosure'
      throw error
    },
  )

function filesOf(name: string): { path: string; content: string }[] {
  const folder = join(root, 'examples/abilities', name)
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name: file }) => join(parentPath, file))
  return paths.map((path) => ({
    path: path.slice(folder.length + 1),
    content: readFileSync(path, 'utf8'),
  }))
}
