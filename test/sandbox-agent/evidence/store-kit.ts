import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { onTestFinished } from 'vitest'
import { openlyHeld, runHeld } from '../../../sandbox-agent/enclosure/held.ts'
import {
  type Collected,
  collectEvidence,
} from '../../../sandbox-agent/evidence/collect-evidence.ts'
import { EvidenceBundle } from '../../../src/contract/evidence.ts'

const schema = [
  `create table project (id text primary key, worktree text not null, vcs text, name text, time_created integer)`,
  `create table session (id text primary key, project_id text not null, parent_id text, directory text not null,
     title text, version text not null, time_created integer)`,
  `create table message (id text primary key, session_id text not null, time_created integer not null,
     time_updated integer not null, data text not null)`,
  `create table part (id text primary key, message_id text not null, session_id text not null,
     time_created integer not null, time_updated integer not null, data text not null)`,
  'create index part_message_id_id_idx on part (message_id, id)',
]

interface Tool {
  tool: string
  input: unknown
  metadata?: Record<string, unknown>
  status?: string
  /** Written to the workspace while the tool runs. */
  files?: Record<string, string | Buffer | null>
}

/**
 * OpenCode's database and snapshot store, as OpenCode 1.18 writes them (test/e2e compares with the real one): the
 * database in its write-ahead form with the connection still open, the snapshots by git in a folder without commits.
 */
export class Store {
  readonly root = mkdtempSync(join(tmpdir(), 'gantry-store-'))
  readonly home = join(this.root, 'home')
  readonly workspace = join(this.root, 'workspace')
  readonly dataDir = join(this.home, '.local', 'share', 'opencode')
  readonly projectId = 'a'.repeat(40)
  readonly session = 'ses_own'
  readonly db: DatabaseSync
  #next = 0
  #at = 1_700_000_000_000

  constructor(tables: readonly string[] = schema) {
    for (const folder of [this.workspace, join(this.dataDir, 'log')])
      mkdirSync(folder, { recursive: true })
    this.git(this.workspace, 'init', '-q')
    mkdirSync(this.snapshots, { recursive: true })
    execFileSync('git', [`--git-dir=${this.snapshots}`, 'init', '-q', '--bare'])
    this.db = new DatabaseSync(join(this.dataDir, 'opencode.db'))
    this.db.exec('pragma journal_mode = wal; pragma wal_autocheckpoint = 0')
    for (const table of tables) this.db.exec(table)
    onTestFinished(() => {
      this.db.close()
      rmSync(this.root, { recursive: true, force: true })
    })
  }

  get snapshots(): string {
    return this.placeOf(this.workspace)
  }

  placeOf(worktree: string, projectId = this.projectId): string {
    const name = createHash('sha1').update(worktree).digest('hex')
    return join(this.dataDir, 'snapshot', projectId, name)
  }

  git(folder: string, ...args: string[]): string {
    return execFileSync('git', args, { cwd: folder, encoding: 'utf8' }).trim()
  }

  /** The tree of the workspace, as OpenCode takes it. */
  snapshot(store = this.snapshots): string {
    const at = [`--git-dir=${store}`, `--work-tree=${this.workspace}`, '-c', 'core.autocrlf=false']
    execFileSync('git', [...at, 'add', '--all', '.'], { cwd: this.workspace })
    return this.git(this.workspace, ...at, 'write-tree')
  }

  /** When the newest message was made. */
  get lastAt(): number {
    const [row] = this.db.prepare('select max(time_created) as at from message').all()
    return (row as { at: number }).at
  }

  begin(worktree = this.workspace): this {
    this.#row('project', { id: this.projectId, worktree, vcs: 'git' })
    this.addSession(this.session, null)
    this.addMessage('msg_prompt', { role: 'user' })
    return this
  }

  addSession(id: string, parent: string | null): void {
    const own = { project_id: this.projectId, directory: this.workspace, version: '1.18.33' }
    this.#row('session', { id, parent_id: parent, ...own })
  }

  addMessage(id: string, data: object, session = this.session): string {
    const at = this.#tick()
    const times = { time_created: at, time_updated: at }
    this.#row('message', { id, session_id: session, ...times, data: JSON.stringify(data) })
    return id
  }

  addPart(messageId: string, data: object | string, session = this.session): string {
    const id = `prt_${String(this.#next++).padStart(6, '0')}`
    const at = this.#tick()
    const text = typeof data === 'string' ? data : JSON.stringify(data)
    const times = { time_created: at, time_updated: at + 1 }
    this.#row('part', { id, message_id: messageId, session_id: session, ...times, data: text })
    return id
  }

  /** One model step with its tools, as one assistant message. */
  step(
    tools: readonly Tool[],
    options: { session?: string; parent?: string; isAborted?: boolean } = {},
  ): string {
    const { session = this.session, parent = 'msg_prompt', isAborted = false } = options
    const message = `msg_${String(this.#next++).padStart(6, '0')}`
    const time = isAborted ? {} : { completed: this.#at + 1000 }
    this.addMessage(message, { role: 'assistant', parentID: parent, agent: 'build', time }, session)
    this.addPart(message, { type: 'step-start', snapshot: this.snapshot() }, session)
    for (const each of tools) this.#tool(message, session, each)
    const to = this.snapshot()
    if (!isAborted) this.addPart(message, { type: 'step-finish', snapshot: to }, session)
    return message
  }

  #tool(message: string, session: string, { tool, input, metadata, status, files }: Tool): void {
    for (const [path, content] of Object.entries(files ?? {})) this.write(path, content)
    const time = { start: this.#at, end: this.#at + 1 }
    const state = { status: status ?? 'completed', input, metadata: metadata ?? {}, time }
    this.addPart(message, { type: 'tool', tool, callID: `call_${this.#next}`, state }, session)
  }

  write(path: string, content: string | Buffer | null): void {
    const whole = join(this.workspace, path)
    if (content === null) return rmSync(whole, { recursive: true, force: true })
    mkdirSync(dirname(whole), { recursive: true })
    writeFileSync(whole, content)
  }

  collect(body: Partial<Parameters<typeof collectEvidence>[1]> = {}): Promise<Collected> {
    return this.collectBy((...run) => runHeld(openlyHeld(undefined), ...run), body)
  }

  /** What comes back has the form of the contract, whatever was found. */
  async collectBy(
    run: Parameters<typeof collectEvidence>[0]['run'],
    body: Partial<Parameters<typeof collectEvidence>[1]> = {},
  ): Promise<Collected> {
    const { home, workspace } = this
    const site = { run, home, workspace, environment: this.#environment, formatted: async () => [] }
    const ids = { collectId: 'c', turnId: 't', messageIds: ['msg_prompt'], after: null }
    const collected = await collectEvidence(site, { ...ids, maxWindows: 10, ...body })
    EvidenceBundle.parse(JSON.parse(JSON.stringify(collected.bundle)))
    return collected
  }

  readonly #environment = { PATH: process.env['PATH'] ?? '', HOME: this.home }

  #row(table: string, values: Record<string, string | number | null>): void {
    const names = Object.keys(values)
    const marks = names.map(() => '?').join(', ')
    const sql = `insert into ${table} (${names.join(', ')}) values (${marks})`
    this.db.prepare(sql).run(...Object.values(values))
  }

  #tick(): number {
    this.#at += 10
    return this.#at
  }
}

export const write = (filePath: string, content: string, exists: boolean): Tool => ({
  ...{ tool: 'write', input: { filePath, content }, metadata: { exists, truncated: false } },
  files: { [filePath]: content },
})

export const edit = (
  filePath: string,
  oldString: string,
  newString: string,
  after: string,
): Tool => ({
  ...{ tool: 'edit', input: { filePath, oldString, newString }, files: { [filePath]: after } },
})

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
