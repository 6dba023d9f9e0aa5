import type { Pin } from './pins.ts'

/** What a pinned skill's content is: that of one version, whatever the registry says by now. */
export interface PinnedSkill {
  description: string
  compatibility: string
  content: string
  /** Its text is this file of the workspace; `content` is empty until that was read. */
  path?: string
}

export const pinnedSkill = ({ content }: Pick<Pin, 'content'>): PinnedSkill =>
  JSON.parse(content) as PinnedSkill
