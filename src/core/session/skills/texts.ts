// Texts of skills that are files of the workspace. The first sandbox reads each before OpenCode runs, and what it has found
// stays: a later generation is given it, so nothing that an agent writes into the file counts as the skill.

import type { FoundAtPath, SkillRead } from '../../../contract/workspace-skill.ts'
import { withoutFrontMatter } from '../../../contract/workspace-skill.ts'
import { hashText } from '../../hash.ts'
import type { Sql } from '../../ports.ts'
import { pinsOf } from '../pins/pins.ts'
import { type PinnedSkill, pinnedSkill } from '../pins/skills.ts'

export interface SkillText {
  name: string
  path: string
  found: FoundAtPath
  content: string | null
}

/** The first word on a skill that the session began with; anything else is not kept. */
export function saveSkillText(sql: Sql, now: number, read: SkillRead): void {
  const { name, path, found, content = '' } = read
  const pin = pinsOf(sql, 'skill').find((one) => one.name === name)
  if (!pin || pinnedSkill(pin).path !== path) return
  const text = found === 'file' ? withoutFrontMatter(content) : null
  sql.run(
    `insert into skill_texts (name, path, found, sha256, content, read_at)
     values (?, ?, ?, ?, ?, ?) on conflict do nothing`,
    ...[name, path, found, text === null ? null : hashText(text), text, now],
  )
}

export const listSkillTexts = (sql: Sql): SkillText[] =>
  sql.all<SkillText>('select name, path, found, content from skill_texts order by name')

/** The pinned skills, with the texts that were read; `path` is left on those that nobody has looked for yet. */
export function givenSkillTexts(sql: Sql): (PinnedSkill & { name: string })[] {
  const texts = new Map(listSkillTexts(sql).map((text) => [text.name, text]))
  return pinsOf(sql, 'skill').flatMap(({ name, content }) => {
    const { path, ...skill } = pinnedSkill({ content })
    if (path === undefined) return { name, ...skill }
    const read = texts.get(name)
    if (!read) return { name, ...skill, path }
    return read.content === null ? [] : { name, ...skill, content: read.content }
  })
}
