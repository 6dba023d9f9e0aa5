import { createHash } from 'node:crypto'
import type { RunChanges } from '../../src/contract/change-ledger.ts'
import {
  type EvidenceBundle,
  evidenceRecordText,
  type EvidenceSide,
} from '../../src/contract/evidence.ts'
import { shorten } from '../../sandbox-agent/shorten.ts'
import type { Host, HostSession } from './host.ts'

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

const tree = (name: string): string => createHash('sha1').update(name).digest('hex')

export const side = (text: string | null): EvidenceSide =>
  text === null
    ? { state: 'absent' }
    : {
        ...{ state: 'text', text, sha256: sha256(text), mode: '100644' },
        sizeBytes: Buffer.byteLength(text),
      }

/** One tool of a step, and the sides of its file in the snapshots. */
export interface Step {
  tool: 'edit' | 'write' | 'apply_patch' | 'bash'
  path: string
  input?: Record<string, unknown>
  exists?: boolean
  before?: string | null
  after?: string | null
}

const metadataOf = ({ exists }: Step) => ({ exists: exists ?? null, truncated: false, files: null })

export const edit = (path: string, before: string, old: string, by: string): Step => ({
  ...{ tool: 'edit', path, before, after: before.replace(old, () => by) },
  input: { filePath: path, oldString: old, newString: by },
})

/** What an agent tells of a turn over the link, and what it finds of it in OpenCode's records. */
export class ChangeScene {
  readonly host: Host
  readonly session: HostSession
  readonly turn: { id: string; runId: string }
  readonly steps: readonly Step[]
  readonly name: string
  /** It does not tell what a tool has said that it did. */
  agentIsOlder = false
  /** The model called all tools at once. */
  inOneStep = false

  constructor(session: HostSession, turn: { id: string; runId: string }, steps: readonly Step[]) {
    this.host = session.host
    this.session = session
    this.turn = turn
    this.steps = steps
    this.name = turn.id.slice(-8)
  }

  /** A session with one turn, whose tools have run. */
  static async begin(host: Host, steps: readonly Step[], body: object = {}): Promise<ChangeScene> {
    return ChangeScene.in(await host.begin(body), steps)
  }

  static async in(session: HostSession, steps: readonly Step[]): Promise<ChangeScene> {
    const { host } = session
    const turn = await host.ok('POST', `${session.at}/prompts`, { text: 'go' })
    await host.live()
    session.agent.result(turn.id, { sent: true, opencodeSessionId: 'ses_oc' })
    await host.live()
    return new ChangeScene(session, turn, steps)
  }

  #part(at: number) {
    const { tool } = this.steps[at] as Step
    const step = this.inOneStep ? 0 : at
    const own = { sessionId: 'ses_oc', messageId: `msg_${this.name}_${step}` }
    return { ...own, partId: `prt_${this.name}_${at}`, callId: `call_${this.name}_${at}`, tool }
  }

  /** Over the link, and the end of the turn. */
  async tell(skip: readonly number[] = []): Promise<this> {
    await this.tellTools(skip)
    return this.tellEnd()
  }

  /** Without those to `from`. */
  async tellTools(skip: readonly number[] = [], from = 0): Promise<this> {
    for (const [at, step] of this.steps.entries()) {
      if (skip.includes(at) || at < from) continue
      const input = step.input ?? { command: 'true' }
      const data = { ...this.#part(at), turnId: this.turn.id, agent: 'build', input }
      this.session.agent.emit('tool.started', shorten(data).value)
      const end = { title: '', output: '', truncated: false, durationMs: 1 }
      const record = {
        recordHash: sha256(evidenceRecordText({ input, metadata: metadataOf(step) })),
      }
      const told = step.tool === 'bash' || this.agentIsOlder ? {} : record
      const { value, shortened } = shorten({ ...data, ...end })
      const cut = shortened ? { shortened } : {}
      this.session.agent.emit('tool.completed', { ...value, ...told, ...cut })
    }
    await this.host.live()
    return this
  }

  async tellEnd(): Promise<this> {
    this.session.agent.endTurn(this.turn.id)
    await this.host.live()
    return this
  }

  /** The ends of steps, with their trees, as a newer agent tells them. */
  async tellSteps(count: number, from = 0, over: object = {}): Promise<this> {
    for (let at = from; at < count; at += 1) {
      const { messageId, sessionId } = this.#part(at)
      const none = { input: 0, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0 }
      this.session.agent.emit('step.finished', {
        ...{ turnId: this.turn.id, sessionId, messageId, partId: `fin_${this.name}_${at}` },
        ...{ reason: 'stop', tokens: none, cost: 0, snapshots: { ...this.trees(at), ...over } },
      })
    }
    await this.host.live()
    return this
  }

  trees(at: number): { from: string; to: string } {
    return { from: tree(`${this.name}${at}`), to: tree(`${this.name}${at + 1}`) }
  }

  /** Of some steps alone, as one page of a collect. */
  page(from: number, to: number): EvidenceBundle {
    const whole = this.bundle()
    return {
      ...whole,
      messages: whole.messages.slice(from, to),
      parts: whole.parts.slice(from, to),
      windows: whole.windows.slice(from, to),
      files: whole.files.slice(from, to),
      reads: whole.reads.slice(from, to),
    }
  }

  get messageIds(): string[] {
    return this.session.agent.commands('prompt').find(({ id }) => id === this.turn.id)?.body
      ? [
          this.session.agent.commands('prompt').find(({ id }) => id === this.turn.id)!.body
            .messageId,
        ]
      : []
  }

  bundle(change: Partial<EvidenceBundle> = {}): EvidenceBundle {
    const { workspace } = this.session.manifest.layout
    const windowId = (at: number) => `win_${this.name}_${at}`
    const trees = (at: number) => this.trees(at)
    const files = this.steps.flatMap(({ path, before, after }, at) =>
      before === undefined || after === undefined
        ? []
        : [
            {
              windowId: windowId(at),
              ...trees(at),
              path,
              before: side(before),
              after: side(after),
            },
          ],
    )
    return {
      version: 1,
      capability: {
        schema: { supported: true, fingerprint: 'opencode-sqlite:test' },
        writeAheadFile: 'read',
        session: {
          ...{ id: 'ses_oc', projectId: 'p', vcs: 'git' },
          ...{ directory: workspace, worktree: workspace },
        },
        store: { state: 'found', fingerprint: 'git-trees:0:sha1:alone' },
        frozen: false,
        formatted: [],
      },
      messages: this.steps.map((_, at) => ({
        ...{ id: this.#part(at).messageId, sessionId: 'ses_oc', agent: 'build' },
        ...{ parentId: this.messageIds[0] ?? null, createdAt: 1000 + at, completedAt: 1001 + at },
      })),
      parts: this.steps.map((step, at) => {
        const { partId: id, messageId, sessionId, callId, tool } = this.#part(at)
        return {
          ...{ id, messageId, sessionId, callId, tool, order: 1, status: 'completed' as const },
          ...{ input: tool === 'bash' ? null : (step.input ?? null), inputTruncated: false },
          metadata: metadataOf(step),
          ...{ startedAt: 1000 + at, endedAt: 1001 + at },
        }
      }),
      neighbours: [],
      windows: this.steps.map(({ path }, at) => ({
        ...{ id: windowId(at), messageId: this.#part(at).messageId, ...trees(at) },
        ...{ startOrder: 0, finishOrder: 2, changed: [path] },
      })),
      files,
      failures: [],
      reads: files.map(({ windowId }) => ({
        ...{ windowId, elapsedMs: 1, timedOut: false, bytes: 1 },
      })),
      ...change,
    }
  }

  /** The newest collect that the agent was asked for. */
  get asked() {
    const found = this.session.agent.commands('evidence').at(-1)
    if (!found) throw new Error('Nothing was asked for')
    return found
  }

  post(bundle: unknown = this.bundle(), token = this.session.token, id = this.asked.id) {
    return this.host.call('PUT', `/sandbox/${this.session.id}/evidence/${id}`, bundle, token)
  }

  /** Posts the bundle and says that it is done. */
  async collect(bundle: unknown = this.bundle(), next: string | null = null): Promise<void> {
    const { id } = this.asked
    await this.post(bundle)
    this.session.agent.result(id, { bytes: 1, next })
    await this.host.live()
  }

  changes(query = ''): Promise<RunChanges> {
    return this.host.ok('GET', `/v1/runs/${this.turn.runId}/changes${query}`)
  }

  backfill(body: object = {}, headers: object = {}) {
    const path = `/v1/runs/${this.turn.runId}/changes/backfill`
    return this.host.ok('POST', path, body, this.host.key, headers)
  }
}
