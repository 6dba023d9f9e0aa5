import { z } from 'zod'
import { Sha256 } from './artifact.ts'
import { canonicalJson } from './canonical.ts'
import { Text } from './ids.ts'

/** The folder of an ability: `ability.yaml` with its scripts and hooks. It is stored, pinned and approved by its hash. */

/** Of ability.yaml. */
export const maxAbilityBytes = 256 * 1024
export const maxAbilityFiles = 256
export const maxAbilityFolderBytes = 4 * 1024 * 1024
export const maxAbilityFileBytes = 512 * 1024

/** One file of an ability's folder. */
export const AbilityFile = z.strictObject({
  path: Text(500, 1).refine(
    (path) =>
      !/^\/|\\|\p{Cc}/u.test(path) &&
      path.split('/').every((part) => part !== '' && part !== '.' && part !== '..'),
    { error: 'Must be a path inside the folder, with "/" between its parts' },
  ),
  content: Text(maxAbilityFileBytes),
})
export type AbilityFile = z.infer<typeof AbilityFile>

/** What the hash of a folder is made of: every path, and the hash of what is there, in the order of paths. */
export const folderHashText = (files: readonly { path: string; sha256: string }[]): string =>
  canonicalJson(
    files.toSorted((a, b) => (a.path < b.path ? -1 : 1)).map(({ path, sha256 }) => [path, sha256]),
  )

/** The folder that a session has pinned, for its sandbox. */
export const PinnedFolder = z.object({ files: z.array(AbilityFile).max(maxAbilityFiles) })
export type PinnedFolder = z.infer<typeof PinnedFolder>

/** The session has it. */
export const AbilityTaken = z.object({ taken: z.boolean() })
export type AbilityTaken = z.infer<typeof AbilityTaken>

export const maxWorkspaceAbilities = 100

/** One that lies in the workspace below `.opencode/abilities`, as the sandbox has read it. */
export const FoundAbility = z.object({
  path: Text(500, 1).describe(
    'Of its folder or flat file, below abilities: deploy/production, test.yaml',
  ),
  main: Text(500, 1).describe('Of its definition, in the folder'),
  source: z.string().max(maxAbilityBytes).describe('The text of its definition'),
  hash: Sha256.describe('Of all its files'),
})
export type FoundAbility = z.infer<typeof FoundAbility>

/** All of them. What cannot be read is named and stops no other. */
export const FoundAbilities = z.strictObject({
  found: z.array(FoundAbility).max(maxWorkspaceAbilities),
  problems: z.array(z.object({ path: Text(500), message: Text(500) })).max(maxWorkspaceAbilities),
})
export type FoundAbilities = z.infer<typeof FoundAbilities>
