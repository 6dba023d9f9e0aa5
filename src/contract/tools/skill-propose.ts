import { z } from 'zod'
import type { ToolDefinition } from '../tool.ts'
import { SkillName, SkillDescription, SkillSource } from '../skill.ts'
import { ProposalSignal } from '../skill-proposal.ts'

const [Inline] = SkillSource.options

/** Gantry's own. The agent can propose a change of a skill that it works with, and can never apply one. */
export const skillProposeTool = {
  name: 'skill_propose',
  aliases: [],
  domain: 'gateway',
  needs: 'skills',
  fileName: 'skill_propose',
  args: z.strictObject({
    skill: SkillName.describe('The name of one of the skills of this session'),
    content: Inline.shape.content.describe('The whole new text of the skill, without front matter'),
    description: SkillDescription.optional().describe('Only if it should change'),
    rationale: z.string().min(1).max(4000).describe('Why it is better, and what showed it'),
    signal: ProposalSignal.shape.kind
      .default('trace')
      .describe('What showed it: trace, failure, correction, memory or request'),
  }),
  description: 'Propose a better text for one of the skills of this session; a person decides.',
  guidance: [
    'Use it when a skill has misled you, lacks a step, or a person has corrected what it says.',
    'Send the whole new text. Nothing changes in this session: if people approve it, later sessions get it.',
    'Propose a change once. Leave out credentials and whatever is true of this task only.',
  ].join('\n'),
  onConflict: 'refuse',
} as const satisfies ToolDefinition
