// What OpenCode's database says of one turn: its assistant messages, their parts and steps, and what ran beside them. A
// program inside the walls opens it read-only, together with its write-ahead file, without which it would show nothing;
// what comes back is checked here row by row, so that a row that cannot be read harms no other.

import { join } from 'node:path'
import { evidenceLimits, maxBundleParts } from '../../src/contract/evidence.ts'
import type { Run } from '../enclosure/reader.ts'
import { Folder } from '../workspace/folder.ts'

export interface HistoryPlace {
  run: Run
  environment: Record<string, string>
  /** OpenCode's own folder of data. */
  dataDir: string
}

export interface HistoryQuestion {
  /** The prompts of the turn, as they were sent to OpenCode. */
  messageIds: readonly string[]
  /** The last message that was collected before. */
  after: string | null
  /** No later ones than this. */
  until?: string | undefined
  maxMessages: number
}

export type Row = Record<string, string | number | null>
/** null: the query failed, which a schema of another release explains. */
export type Rows = Record<'schema' | 'session' | 'messages' | 'parts' | 'neighbours', Row[] | null>

export type History =
  | { ok: true; writeAheadFile: 'read' | 'none'; rows: Rows }
  | { ok: false; writeAheadFile: 'read' | 'none' | 'unreadable' }

const maxOutputBytes = 24 * 1024 * 1024
/** Of one part's input. Of a longer one only the name of its file is told; the snapshot may still show what it did. */
const maxInputCharacters = 2 * evidenceLimits.bytesPerFile
/** Of the page. One row more is asked for: it tells that there are more. */
export const maxPartRows = 2 * maxBundleParts
/** Of a message that has more parts than a bundle may hold; only their names are told. */
const maxPartNames = 5000
/** How the program ends if it must not read the write-ahead file. */
const unreadableCode = 3

export async function readHistory(
  place: HistoryPlace,
  question: HistoryQuestion,
): Promise<History> {
  const writeAheadFile = lookAtWriteAheadFile(place.dataDir)
  if (writeAheadFile === 'unreadable') return { ok: false, writeAheadFile }
  const ran = await ask(place, queriesOf(question))
  if (ran?.code === unreadableCode) return { ok: false, writeAheadFile: 'unreadable' }
  if (ran?.code !== 0) return { ok: false, writeAheadFile }
  return { ok: true, writeAheadFile, rows: JSON.parse(ran.output.toString('utf8')) as Rows }
}

/** The names of the tool parts of one message. Only for a message that has too many for a bundle. */
export async function readHistoryPartNames(
  place: HistoryPlace,
  messageId: string,
): Promise<string[]> {
  const sql = `select t.id from part t where t.message_id = ?1 and ${field('t', 'type')} = 'tool'
    order by t.id limit ${maxPartNames}`
  const ran = await ask(place, [['names', sql, [messageId]]])
  if (ran?.code !== 0) return []
  const { names } = JSON.parse(ran.output.toString('utf8')) as { names: Row[] | null }
  return (names ?? []).map(({ id }) => String(id))
}

/** Most of it is the start of the program that reads: on a busy machine more than a read of a snapshot may take. */
const historyMs = 20_000

function ask({ run, environment, dataDir }: HistoryPlace, queries: unknown[][]) {
  return run(process.execPath, ['--no-warnings', '-e', program], {
    environment,
    input: JSON.stringify({ path: join(dataDir, 'opencode.db'), queries }),
    maxBytes: maxOutputBytes,
    timeoutMs: historyMs,
  }).catch(() => null)
}

const magic = [0x37_7f_06_82, 0x37_7f_06_83]

/** SQLite takes one that it does not understand for an empty one, and shows the past as if it were all. */
function lookAtWriteAheadFile(dataDir: string): 'read' | 'none' | 'unreadable' {
  const name = 'opencode.db-wal'
  let folder: Folder | undefined
  try {
    folder = Folder.open(dataDir)
    const stat = folder.stat(name)
    if (stat === undefined || (stat.isFile() && stat.size === 0)) return 'none'
    const head = folder.readSome(name, 'first', 4)
    return head !== undefined && head.length === 4 && magic.includes(head.readUInt32BE())
      ? 'read'
      : 'unreadable'
  } catch {
    return 'none' // there is no such folder: the database itself is missed
  } finally {
    folder?.close()
  }
}

/**
 * Runs the queries on one state of the database and prints the rows; one that fails gives null. It is told everything by
 * standard input.
 */
const program = `const fs=require('node:fs');const {DatabaseSync}=require('node:sqlite');
const {path,queries}=JSON.parse(fs.readFileSync(0,'utf8'));
const wal=path+'-wal';
try{if(fs.existsSync(wal))fs.closeSync(fs.openSync(wal,'r'))}catch{process.exit(${unreadableCode})}
const db=new DatabaseSync(path,{readOnly:true});
db.exec('pragma trusted_schema=0');db.exec('begin');
const rows={};
for(const [name,sql,values] of queries)
try{rows[name]=db.prepare(sql).all(...values)}catch{rows[name]=null}
process.stdout.write(JSON.stringify(rows))`

const tables = `'session', 'message', 'part', 'project'`
/** Of a column that is not JSON nothing is taken, and the others are read on. */
const field = (alias: string, path: string) =>
  `case when json_valid(${alias}.data) then json_extract(${alias}.data, '$.${path}') end`

/**
 * Messages that answer the turn's prompts, and those of the sub-agents that they sent, while they were sent. Kept for the
 * queries after it in a table that only this connection has.
 */
const pageOfTurn = `create temp table page as with recursive prompts as (select value as id from json_each(?1)),
  turn(id) as (
    select m.id from message m join message u on u.session_id = m.session_id
    where u.id in (select id from prompts) and ${field('m', 'role')} = 'assistant'
      and ${field('m', 'parentID')} = u.id
    union
    select m.id from turn
      join part t on t.message_id = turn.id and ${field('t', 'tool')} = 'task'
      join session child on child.id = ${field('t', 'state.metadata.sessionId')}
        and child.parent_id = t.session_id
      join message m on m.session_id = child.id and ${field('m', 'role')} = 'assistant'
        and m.time_created >= ${field('t', 'state.time.start')}
        and m.time_created <= coalesce(${field('t', 'state.time.end')}, m.time_created)
  ),
  page as (
    select m.id, m.session_id, m.time_created from turn join message m using (id)
    where (?2 is null or (m.time_created, m.id) >
        (select time_created, id from message where id = ?2))
      and (?4 is null or (m.time_created, m.id) <=
        (select time_created, id from message where id = ?4))
    order by m.time_created, m.id limit ?3
  )
  select * from page`

function queriesOf({ messageIds, after, maxMessages, until }: HistoryQuestion): unknown[][] {
  const values = [JSON.stringify(messageIds), after, maxMessages, until ?? null]
  return [
    [
      'schema',
      `select m.name as tbl, c.name as col, c.type from sqlite_master m, pragma_table_info(m.name) c
       where m.type = 'table' and m.name in (${tables}) order by 1, 2`,
      [],
    ],
    [
      'session',
      `select distinct s.id, s.project_id as projectId, s.directory, s.version, p.worktree, p.vcs
       from message u join session s on s.id = u.session_id left join project p on p.id = s.project_id
       where u.id in (select value from json_each(?1)) limit 2`,
      values.slice(0, 1),
    ],
    ['page', pageOfTurn, values],
    [
      'messages',
      `select m.id, m.session_id as sessionId, ${field('m', 'parentID')} as parentId,
         ${field('m', 'agent')} as agent, m.time_created as createdAt,
         ${field('m', 'time.completed')} as completedAt
       from page join message m using (id) order by m.time_created, m.id`,
      [],
    ],
    [
      'parts',
      `with numbered as (
         select t.*, row_number() over (partition by t.message_id order by t.id) - 1 as place
         from page join part t on t.message_id = page.id)
       select n.id, n.message_id as messageId, n.session_id as sessionId, n.place,
         json_valid(n.data) as valid, ${field('n', 'type')} as type, ${field('n', 'snapshot')} as snapshot,
         ${toolFields('n')} from numbered n join message m on m.id = n.message_id
       where valid = 0 or type in ('tool', 'step-start', 'step-finish')
       order by m.time_created, m.id, n.place limit ${maxPartRows + 1}`,
      [],
    ],
    [
      'neighbours',
      `with span as (
         select min(t.time_created) as since, max(t.time_updated) as until
         from page join part t on t.message_id = page.id)
       select t.id, t.message_id as messageId, t.session_id as sessionId, ${toolFields('t')}
       from span, part t
       where t.time_created <= span.until and t.time_updated >= span.since
         and t.message_id not in (select id from page) and ${field('t', 'type')} = 'tool'
       order by t.id limit ${maxBundleParts + 1}`,
      [],
    ],
  ]
}

const isLong = (value: string) => `length(${value}) > ${maxInputCharacters}`

function toolFields(alias: string): string {
  const input = field(alias, 'state.input')
  const files = field(alias, 'state.metadata.files')
  return `${field(alias, 'tool')} as tool, ${field(alias, 'callID')} as callId,
    ${field(alias, 'state.status')} as status,
    case when ${isLong(input)} then json_object('filePath', ${field(alias, 'state.input.filePath')})
      else ${input} end as input,
    coalesce(${isLong(input)}, 0) or coalesce(${isLong(files)}, 0) as isCut,
    ${field(alias, 'state.metadata.exists')} as existed,
    ${field(alias, 'state.metadata.truncated')} as truncated,
    case when ${isLong(files)} then null else ${files} end as files,
    ${field(alias, 'state.time.start')} as startedAt, ${field(alias, 'state.time.end')} as endedAt`
}
