import type { Pin } from '../pins/pins.ts'

/** What a pinned skill's content is: that of one version, whatever the registry says by now. */
export interface PinnedSkill {
  description: string
  compatibility: string
  content: string
}

/** Where OpenCode looks for it: in the folder of its configuration, which it cannot write. */
export const skillFolder = (configDir: string, name: string): string => `${configDir}/skill/${name}`

/** As OpenCode's own skill tool finds it. A text in JSON is one in YAML, too. */
export function skillText({ name, content }: Pin): string {
  const skill = JSON.parse(content) as PinnedSkill
  return [
    '---',
    `name: ${JSON.stringify(name)}`,
    `description: ${JSON.stringify(skill.description)}`,
    ...(skill.compatibility ? [`compatibility: ${JSON.stringify(skill.compatibility)}`] : []),
    '---',
    skill.content,
    '',
  ].join('\n')
}
