import type { AbilityFile, FoundAbilities, FoundAbility } from '../../../contract/ability-folder.ts'
import { type Ability, parseAbilityDefinition } from '../../abilities/definition.ts'
import type { Sql } from '../../ports.ts'

/** What the sandbox has found in the workspace, as it was read here. */
export interface WorkspaceAbility {
  /** Below .opencode/abilities. */
  path: string
  main: string
  hash: string
  /** Null: it cannot be read, and `problems` says why. */
  definition: Ability | null
  problems: string[]
}

/** Replaces what was told before. */
export function saveWorkspaceOffers(sql: Sql, now: number, told: FoundAbilities): void {
  sql.run('delete from workspace_abilities')
  const read = [
    ...told.found.map(readFound),
    ...told.problems.map(({ path, message }) => ({
      ...{ path, main: '', hash: '', definition: null, problems: [message] },
    })),
  ]
  for (const { path, main, hash, definition, problems } of read)
    sql.run(
      'insert or ignore into workspace_abilities values (?, ?, ?, ?, ?, ?, ?)',
      ...[path, main, hash, definition?.name ?? null],
      ...[definition === null ? null : JSON.stringify(definition), JSON.stringify(problems), now],
    )
}

const maxProblems = 20

function readFound({ path, main, source, hash }: FoundAbility): WorkspaceAbility {
  const folder = folderOfOffer({ path, main })
  const parsed = parseAbilityDefinition(source, folder === '' ? main : `${folder}/${main}`)
  if ('ability' in parsed) return { path, main, hash, definition: parsed.ability, problems: [] }
  const problems = parsed.errors
    .slice(0, maxProblems)
    .map(({ line, code, message }) => `line ${line}: ${code}: ${message}`)
  return { path, main, hash, definition: null, problems }
}

/** Where its definition lies, below .opencode/abilities: a flat file is in the folder around it. */
export function folderOfOffer({ path, main }: Pick<WorkspaceAbility, 'path' | 'main'>): string {
  const isFolder = /^ability\.ya?ml$/.test(main) && path !== main
  return isFolder ? path : path.split('/').slice(0, -1).join('/')
}

interface Row {
  path: string
  main: string
  hash: string
  definition: string | null
  problems: string
}

/** Those that count first: what lies in a folder before a flat file, then by path. */
export function listWorkspaceOffers(sql: Sql): WorkspaceAbility[] {
  const rows = sql.all<Row>(
    'select path, main, hash, definition, problems from workspace_abilities order by path',
  )
  const all = rows.map(({ definition, problems, ...row }) => ({
    ...row,
    definition: definition === null ? null : (JSON.parse(definition) as Ability),
    problems: JSON.parse(problems) as string[],
  }))
  return [...all.filter(isNested), ...all.filter((one) => !isNested(one))]
}

const isNested = ({ path, main }: WorkspaceAbility): boolean => path.includes('/') || path !== main

/** Of several with one name the first counts. */
export const findWorkspaceOffer = (sql: Sql, name: string): WorkspaceAbility | undefined =>
  listWorkspaceOffers(sql).find(({ definition }) => definition?.name === name)

export function saveOfferFolder(sql: Sql, hash: string, files: readonly AbilityFile[]): void {
  for (const { path, content } of files)
    sql.run('insert or ignore into workspace_folders values (?, ?, ?)', hash, path, content)
}

/** Empty: none is kept under this hash. */
export const loadOfferFolder = (sql: Sql, hash: string): AbilityFile[] =>
  sql.all<AbilityFile>(
    'select path, content from workspace_folders where hash = ? order by path',
    hash,
  )
