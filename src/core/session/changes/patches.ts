import { AppError } from '../../../contract/error.ts'
import {
  patchChecksum,
  maxPatchBytes,
  type PatchRow,
  type TurnPatch,
} from '../../../contract/patch.ts'
import type { Sql } from '../../ports.ts'

// One row for each turn that changed something. The text is null if it is not kept.

/** Each holds the work of all turns before it, so older ones are only history. */
const keptTexts = 20

const columns = 'turn_id as turnId, generation, at, base, tree, files, bytes, state, note'

/** What was said is redacted already. A turn that left the files as they were has no patch of its own. */
export function savePatch(
  sql: Sql,
  now: number,
  said: { turnId: string; generation: number; patch: TurnPatch },
): void {
  const { turnId, generation, patch } = said
  const before = newest(sql)
  if (patch.tree === (before?.base === patch.base ? before.tree : patch.base)) return
  const { state, note, text } = keep(sql, patch)
  sql.run(
    `insert or ignore into patches (turn_id, generation, at, base, tree, files, bytes, state, note, text)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    turnId,
    generation,
    now,
    patch.base,
    patch.tree,
    patch.files,
    patch.bytes,
    state,
    note,
    text,
  )
  sql.run(
    `update patches set text = null, state = 'missing', note = 'Only the newest ${keptTexts} are kept'
     where text is not null and n <= (select max(n) from patches) - ?`,
    keptTexts,
  )
}

type Kept = Pick<PatchRow, 'state' | 'note'> & { text: string | null }

function keep(sql: Sql, patch: TurnPatch): Kept {
  if (patch.text === null || patch.text.length > 2 * maxPatchBytes) {
    const note = `${patch.bytes} bytes are more than the ${maxPatchBytes} that are kept of a patch. The files are in the session's snapshots`
    return { state: 'missing', note, text: null }
  }
  const { text, leftOut } = holdsSecrets(sql) ? withoutBinaries(patch.text) : all(patch.text)
  const isRedacted = patchChecksum(patch.text) !== patch.checksum
  const absent = patch.leftOut ?? []
  const nested = namesOf(filesOf(patch.text).filter(isRepository)).filter(
    (name) => !absent.some(({ path }) => name === `a/${path} b/${path}`),
  )
  if (!isRedacted && leftOut.length + nested.length + absent.length === 0)
    return { state: 'whole', note: null, text }
  const note = [
    isRedacted ? 'Secrets were taken out: what is around them may not apply.' : '',
    leftOut.length > 0
      ? `Binary files cannot be searched for the session's secrets, so they are left out: ${leftOut.join(', ')}.`
      : '',
    nested.length > 0
      ? `Of a git repository inside the workspace only its commit is here, not its files: ${nested.join(', ')}.`
      : '',
    absent.length > 0
      ? `These are in the workspace and not in here: ${absent.map(({ path, reason }) => `${onOneLine(path)} (${reason})`).join(', ')}.`
      : '',
  ]
    .filter((line) => line !== '')
    .join(' ')
  // git skips whatever stands before the first file.
  return { state: 'changed', note, text: `# Gantry: ${note}\n${text}` }
}

/** A name with a line break would begin a line of the patch. */
const onOneLine = (path: string) => (/[\p{Cc}]/u.test(path) ? JSON.stringify(path) : path)

const holdsSecrets = (sql: Sql): boolean =>
  sql.all(`select 1 from env_values where kind = 'secret' limit 1`).length > 0

const all = (text: string) => ({ text, leftOut: [] as string[] })

const filesOf = (patch: string): string[] => patch.split(/^(?=diff --git )/m)
const namesOf = (files: readonly string[]): string[] =>
  files.map((file) => file.slice(0, file.indexOf('\n')).slice(11))

/** They are deflated: no value would be found in them. */
function withoutBinaries(patch: string): { text: string; leftOut: string[] } {
  const files = filesOf(patch)
  const isBinary = (file: string) => /^GIT binary patch$/m.test(file)
  return {
    text: files.filter((file) => !isBinary(file)).join(''),
    leftOut: namesOf(files.filter(isBinary)),
  }
}

/** To git a repository inside another one is a commit, not files. */
const isRepository = (file: string): boolean =>
  /^(?:(?:new|old|deleted)(?: file)? mode 160000|index [0-9a-f]+\.\.[0-9a-f]+ 160000)$/m.test(file)

const newest = (sql: Sql): PatchRow | undefined =>
  sql.all<PatchRow>(`select ${columns} from patches order by n desc limit 1`)[0]

export function listPatches(sql: Sql): PatchRow[] {
  return sql.all<PatchRow>(`select ${columns} from patches order by n`)
}

/** `latest` is that of the newest turn that changed something. */
export function loadPatch(sql: Sql, turnId: string): PatchRow & { text: string } {
  const found = sql.all<PatchRow & { text: string | null }>(
    turnId === 'latest'
      ? `select ${columns}, text from patches where ? = 'latest' order by n desc limit 1`
      : `select ${columns}, text from patches where turn_id = ?`,
    turnId,
  )[0]
  if (!found) throw new AppError('not_found', `No patch of turn "${turnId}": it changed nothing`)
  const { text, ...row } = found
  if (text === null)
    throw new AppError('not_found', `The patch of turn "${row.turnId}" is not kept: ${row.note}`)
  return { ...row, text }
}
