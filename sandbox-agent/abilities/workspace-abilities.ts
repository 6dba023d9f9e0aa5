// Reads the abilities that lie in the workspace below `.opencode/abilities`, at any depth. A folder with ability.yaml is
// one, with everything in it; any other YAML file is one by itself. Symlinks are not followed, and nothing is read that
// is too large or too much: that one is named as a problem, and the others are told. Nothing is judged here: whether a
// file can run, and whether it may, is for the control plane. The agent reads them when it is ready and before turns.

import { createHash } from 'node:crypto'
import {
  type AbilityFile,
  type FoundAbilities,
  type FoundAbility,
  folderHashText,
  maxAbilityBytes,
  maxAbilityFileBytes,
  maxAbilityFiles,
  maxAbilityFolderBytes,
  maxWorkspaceAbilities,
} from '../../src/contract/ability-folder.ts'
import { Folder } from '../workspace/folder.ts'

const place = ['.opencode', 'abilities']
const maxDepth = 20
/** Of all files and folders that are looked at. */
const maxEntries = 2000

/** Every definition together: they are sent in one request. */
const maxSourceBytes = 1024 * 1024

interface ReadAbility extends FoundAbility {
  files: AbilityFile[]
}

/** Whatever goes wrong with one is its problem alone. */
export function findWorkspaceAbilities(workspace: string): FoundAbilities {
  const found: FoundAbility[] = []
  const problems: FoundAbilities['problems'] = []
  let bytes = 0
  for (const one of visit(workspace)) {
    const path = one.path.slice(0, 500)
    if ('message' in one) problems.push({ path, message: one.message })
    else if (found.length >= maxWorkspaceAbilities)
      problems.push({ path, message: `There are more than ${maxWorkspaceAbilities} abilities` })
    else if (bytes + Buffer.byteLength(one.source) > maxSourceBytes)
      problems.push({ path, message: 'The definitions before it are too large together' })
    else {
      bytes += Buffer.byteLength(one.source)
      const { main, source, hash } = one
      found.push({ path, main, source, hash })
    }
  }
  return { found, problems: problems.slice(0, maxWorkspaceAbilities) }
}

/** With all its files; undefined: it is not there any more, or cannot be read. */
export function readWorkspaceAbility(workspace: string, path: string): ReadAbility | undefined {
  return visit(workspace).find((one): one is ReadAbility => one.path === path && 'files' in one)
}

interface Problem {
  path: string
  message: string
}

function visit(workspace: string): (ReadAbility | Problem)[] {
  const root = open(workspace)
  if (root === undefined) return []
  try {
    return new Visit(root.realPath()).folder(root, [])
  } finally {
    root.close()
  }
}

function open(workspace: string): Folder | undefined {
  const top = Folder.open(workspace)
  const found = top.descend(place)
  top.close()
  return found
}

const isYaml = (name: string) => /\.ya?ml$/.test(name)
const isMain = (name: string) => /^ability\.ya?ml$/.test(name)
const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1)

/** One walk. It counts what it has looked at. */
class Visit {
  readonly #within: string
  #left = maxEntries

  constructor(within: string) {
    this.#within = within
  }

  /** What is not of an ability that begins further up. */
  folder(folder: Folder, names: string[]): (ReadAbility | Problem)[] {
    if (names.length > maxDepth) return [{ path: names.join('/'), message: 'It is too deep' }]
    const entries = folder.entries().toSorted(byName)
    this.#left -= entries.length
    if (this.#left < 0) return [{ path: names.join('/'), message: 'There are too many files' }]
    const main = entries.find(({ name }) => isMain(name) && names.length > 0)
    const own = main
      ? [this.#read(names.join('/'), main.name, () => this.#filesOf(folder, ''))]
      : entries
          .filter((entry) => entry.isFile() && isYaml(entry.name))
          .map(({ name }) =>
            this.#read([...names, name].join('/'), name, () => [this.#file(folder, name, name)]),
          )
    const below = entries.flatMap(({ name }) => {
      const inner = folder.enter(name)
      if (!inner) return []
      try {
        return this.folder(inner, [...names, name]).filter(
          (one) => main === undefined || !('files' in one) || isMain(one.main),
        )
      } finally {
        inner.close()
      }
    })
    return [...own, ...below]
  }

  #read(path: string, main: string, files: () => AbilityFile[]): ReadAbility | Problem {
    try {
      return abilityOf(path, main, files())
    } catch (error) {
      return { path, message: (error as Error).message.slice(0, 500) }
    }
  }

  /** Of one ability: folders in it that are abilities of their own are left out. */
  #filesOf(folder: Folder, prefix: string): AbilityFile[] {
    const files = folder
      .entries()
      .toSorted(byName)
      .flatMap(({ name }): AbilityFile[] => {
        this.#left -= 1
        if (this.#left < 0) throw new Error('There are too many files')
        const inner = folder.enter(name)
        if (!inner) return [this.#file(folder, name, `${prefix}${name}`)]
        try {
          return inner.entries().some((entry) => isMain(entry.name))
            ? []
            : this.#filesOf(inner, `${prefix}${name}/`)
        } finally {
          inner.close()
        }
      })
    if (files.length > maxAbilityFiles) throw new Error(`It has more than ${maxAbilityFiles} files`)
    return files
  }

  #file(folder: Folder, name: string, path: string): AbilityFile {
    const content = folder.read(name, { maxBytes: maxAbilityFileBytes, within: this.#within })
    if (content === 'too large')
      throw new Error(`"${path}" has more than ${maxAbilityFileBytes} bytes`)
    if (content === undefined) throw new Error(`"${path}" is no plain file`)
    return { path, content: textOf(content, path) }
  }
}

function textOf(content: Buffer, path: string): string {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content)
    if (!text.includes('\0')) return text
  } catch {
    // told below
  }
  throw new Error(`"${path}" is no text`)
}

function abilityOf(path: string, main: string, files: AbilityFile[]): ReadAbility {
  const bytes = files.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0)
  if (bytes > maxAbilityFolderBytes)
    throw new Error(`It has more than ${maxAbilityFolderBytes} bytes`)
  const source = files.find((file) => file.path === main)?.content ?? ''
  if (source.length > maxAbilityBytes)
    throw new Error(`"${main}" has more than ${maxAbilityBytes} bytes`)
  const hashed = files.map((file) => ({ path: file.path, sha256: sha256(file.content) }))
  return { path, main, source, hash: sha256(folderHashText(hashed)), files }
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
