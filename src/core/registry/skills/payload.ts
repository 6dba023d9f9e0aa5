// What of resolved skills can be given to an agent: texts that are here. Pure, and deterministic in its reasons.

import { byteLength, isByteLengthOver } from '../../../contract/byte-length.ts'
import {
  maxPayloadBytes,
  maxSkillBytes,
  type PayloadReason,
  type ResolvedSkill,
  type SkillPayload,
  type SkillPayloadItem,
  type SkillResolution,
} from '../../../contract/skill.ts'
import {
  type FoundAtPath,
  isUnsafeSkillPath,
  withoutFrontMatter,
} from '../../../contract/workspace-skill.ts'

/** What a sandbox's agent has found at a path of its workspace. */
export type UploadedFile =
  | { state: 'file'; content: string }
  | { state: Exclude<FoundAtPath, 'file'> }

/** By path. */
export type Uploads = ReadonlyMap<string, UploadedFile>

type Content = { content: string; reason: null } | { content: null; reason: PayloadReason }

/** In the order of the resolution. What no longer fits is left out whole, and what comes after it may still fit. */
export function payloadOfSkills(
  { skills, skipped }: SkillResolution,
  uploads: Uploads,
): SkillPayload {
  let left = maxPayloadBytes
  const items = skills.map((skill, order): SkillPayloadItem => {
    const given = contentOf(skill, uploads)
    const bytes = given.content === null ? 0 : byteLength(given.content)
    const fits = bytes <= left
    if (fits) left -= bytes
    return { ...skill, order, ...(fits ? given : none('payload_full')) }
  })
  return { items, skipped }
}

function contentOf({ source }: ResolvedSkill, uploads: Uploads): Content {
  if (source.kind === 'inline') return textOf(source.content)
  if (source.kind === 'url') return none('url_fetch_disabled')
  return isUnsafeSkillPath(source.path) ? none('path_unsafe') : uploaded(uploads.get(source.path))
}

function uploaded(file: UploadedFile | undefined): Content {
  if (file === undefined) return none('path_not_uploaded')
  return file.state === 'file'
    ? textOf(withoutFrontMatter(file.content))
    : none(reasons[file.state])
}

const reasons = {
  missing: 'path_missing',
  not_file: 'path_not_file',
  oversized: 'content_oversized',
  outside: 'path_unsafe',
} as const

const textOf = (content: string): Content =>
  isByteLengthOver(content, maxSkillBytes) ? none('content_oversized') : { content, reason: null }

const none = (reason: PayloadReason): Content => ({ content: null, reason })
