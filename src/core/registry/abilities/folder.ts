import { AppError, type ErrorDetail } from '../../../contract/error.ts'
import type { AbilityProblem } from '../../../contract/ability.ts'
import {
  type AbilityFile,
  folderHashText,
  maxAbilityFolderBytes,
} from '../../../contract/ability-folder.ts'
import type { AbilityPut } from '../../../contract/stored-ability.ts'
import { byteLength } from '../../../contract/byte-length.ts'
import { type Ability, parseAbilityDefinition } from '../../abilities/definition.ts'
import type { Crypto } from '../../ports.ts'
import { hookWarnings } from './hook-files.ts'

/** The folder of an ability, read: what is stored, pinned and approved is its hash. */
export interface AbilityFolder {
  ability: Ability
  warnings: string[]
  mainPath: string
  files: AbilityFile[]
  hash: string
}

const isMain = (path: string): boolean => /^ability\.ya?ml$/.test(path)
const isFlat = (path: string): boolean => /^[^/]+\.ya?ml$/.test(path)

/** Or refuses, with every mistake. */
export async function readAbilityFolder(
  { files, path = '' }: Pick<AbilityPut, 'files' | 'path'>,
  crypto: Pick<Crypto, 'sha256'>,
): Promise<AbilityFolder> {
  const hash = await hashAbilityFolder(files, crypto)
  const main =
    files.find((file) => isMain(file.path)) ?? (files.length === 1 ? files[0] : undefined)
  if (main === undefined || !isFlat(main.path))
    throw refused([
      { path: 'files', message: 'Needs "ability.yaml", or one file that ends with ".yaml"' },
    ])
  const parsed = parseAbilityDefinition(
    main.content,
    [path, main.path].filter((part) => part !== '').join('/'),
  )
  if ('errors' in parsed) throw refused(parsed.errors.map(detailOf))
  const sorted = files.toSorted((a, b) => (a.path < b.path ? -1 : 1))
  const warnings = [...parsed.warnings, ...hookWarnings(sorted)]
  return { ...parsed, warnings, mainPath: main.path, files: sorted, hash }
}

/** Or refuses: it is too large, or has a file twice. */
export async function hashAbilityFolder(
  files: readonly AbilityFile[],
  crypto: Pick<Crypto, 'sha256'>,
): Promise<string> {
  mustFit(files)
  const hashed = files.map(async ({ path, content }) => ({
    path,
    sha256: await crypto.sha256(content),
  }))
  return await crypto.sha256(folderHashText(await Promise.all(hashed)))
}

function mustFit(files: readonly AbilityFile[]): void {
  const paths = new Set<string>()
  for (const [at, { path }] of files.entries()) {
    if (paths.has(path))
      throw refused([{ path: `files[${at}].path`, message: `There is already a file "${path}"` }])
    paths.add(path)
  }
  const bytes = files.reduce((sum, { content }) => sum + byteLength(content), 0)
  if (bytes > maxAbilityFolderBytes) throw refused([tooLarge(bytes)])
}

const tooLarge = (bytes: number): ErrorDetail => ({
  path: 'files',
  message: `Must have at most ${maxAbilityFolderBytes} bytes in all, not ${bytes}`,
})

function detailOf({ line, column, path, code, message }: AbilityProblem): ErrorDetail {
  const place = `line ${line}, column ${column} ${path}`.trimEnd().slice(0, 200)
  return { path: place, message: `${code}: ${message}` }
}

function refused(details: ErrorDetail[]): AppError {
  const [first, ...rest] = details
  const more = rest.length > 0 ? ` (and ${rest.length} more)` : ''
  return new AppError(
    'unprocessable',
    `Invalid ability at ${first?.path}: ${first?.message}${more}`,
    details,
  )
}
