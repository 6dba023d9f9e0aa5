import { z } from 'zod'
import { Sha256 } from './artifact.ts'
import { namesSecretPath } from './secret-paths.ts'

/** A skill whose text is a file of the workspace: the agent reads it before OpenCode starts, and tells what it found. */
export const WorkspaceSkill = z.object({
  name: z.string(),
  /** In the workspace, relative to it. */
  path: z.string(),
  /** Where OpenCode looks for it, absolute. */
  file: z.string(),
  /** The front matter, which is the registry's; that of the file does not count. */
  head: z.string(),
  maxBytes: z.number().int(),
})
export type WorkspaceSkill = z.infer<typeof WorkspaceSkill>

/** outside: a symlink, which may lead anywhere, is on the way. */
export const FoundAtPath = z.enum(['file', 'missing', 'not_file', 'oversized', 'outside'])
export type FoundAtPath = z.infer<typeof FoundAtPath>

/** What a sandbox has found, as an event of it; the log keeps it without the text. */
export const SkillRead = z.object({
  name: z.string().max(64),
  path: z.string().max(500),
  found: FoundAtPath,
  sha256: Sha256.nullable().describe('Of the file'),
  content: z
    .string()
    .max(64 * 1024)
    .optional(),
})
export type SkillRead = z.infer<typeof SkillRead>

/** Lexically: out of the workspace, of no meaning that every machine shares, or where credentials are kept. */
export const isUnsafeSkillPath = (path: string): boolean =>
  /^[/~]|^[A-Za-z]:|\\|\p{Cc}/u.test(path) || path.split('/').some(isOdd) || namesSecretPath(path)

const isOdd = (part: string): boolean => ['', '.', '..', '.git'].includes(part.toLowerCase())

/** A file brings its own; what counts is that of the version. */
export const withoutFrontMatter = (text: string): string =>
  text.replace(/^\uFEFF?---[^\S\n]*\n(?:[\s\S]*?\n)??---[^\S\n]*(?:\n|$)/, '')
