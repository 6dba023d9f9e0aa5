import { maxSkillBytes } from '../../../contract/skill.ts'
import type { WorkspaceSkill } from '../../../contract/workspace-skill.ts'
import type { PinnedSkill } from '../pins/skills.ts'

/** As the session has it: with its text, or with the path where its sandbox is to look for it. */
export interface GivenSkill extends PinnedSkill {
  name: string
}

/** Where OpenCode looks for it: in the folder of its configuration, which it cannot write. */
export const skillFolder = (configDir: string, name: string): string => `${configDir}/skill/${name}`

const skillFile = (configDir: string, name: string) => `${skillFolder(configDir, name)}/SKILL.md`

/** As OpenCode's own skill tool finds it. A text in JSON is one in YAML, too. */
const headOf = ({ name, description, compatibility }: GivenSkill): string =>
  [
    '---',
    `name: ${JSON.stringify(name)}`,
    `description: ${JSON.stringify(description)}`,
    ...(compatibility ? [`compatibility: ${JSON.stringify(compatibility)}`] : []),
    '---',
    '',
  ].join('\n')

export const skillFiles = (
  configDir: string,
  skills: readonly GivenSkill[],
): { path: string; content: string }[] =>
  skills
    .filter(({ path }) => path === undefined)
    .map((skill) => ({
      path: skillFile(configDir, skill.name),
      content: `${headOf(skill)}${skill.content}\n`,
    }))

/** For the agent, which reads their texts. */
export const workspaceSkills = (
  configDir: string,
  skills: readonly GivenSkill[],
): WorkspaceSkill[] =>
  skills.flatMap((skill) =>
    skill.path === undefined
      ? []
      : {
          ...{ name: skill.name, path: skill.path, file: skillFile(configDir, skill.name) },
          ...{ head: headOf(skill), maxBytes: maxSkillBytes },
        },
  )
