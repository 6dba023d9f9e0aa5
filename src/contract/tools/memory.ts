import { z } from 'zod'
import { MemoryId, Text } from '../ids.ts'
import { MemoryFields, MemoryType, MemoryUpdate } from '../memory.ts'
import { RegistryScope } from '../registry-scope.ts'
import type { ToolDefinition } from '../tool.ts'

const common = {
  aliases: [],
  domain: 'gateway',
  needs: 'memory',
  category: 'memory',
  onConflict: 'refuse',
} as const

const Found = z.strictObject({
  query: Text(500, 1).describe('Words to look for'),
  type: MemoryType.optional().describe('Only of this type, such as decision'),
  limit: z.number().int().min(1).max(20).default(8),
})

export const memorySearchTool = {
  ...common,
  name: 'memory_search',
  args: Found,
  description: 'Search what this project, or the member you work for, wants to remember.',
  guidance: [
    'Search before you decide something that may have been decided, or ask something that may have been answered.',
    'Give the words that matter, not a sentence. The answer has snippets: read one whole with memory_get.',
    'What was remembered may be out of date: look at the code before you rely on it.',
  ].join('\n'),
} as const satisfies ToolDefinition

export const memoryGetTool = {
  ...common,
  name: 'memory_get',
  args: z.strictObject({ id: MemoryId }),
  description: 'Read one memory whole, by the id that memory_search gave.',
  guidance: 'Use it when a snippet is not enough.',
} as const satisfies ToolDefinition

export const memorySaveTool = {
  ...common,
  name: 'memory_save',
  args: MemoryFields.extend({ scope: RegistryScope.default('project') }),
  description: 'Remember something for later sessions.',
  guidance: [
    'Save what a later session could not find out by itself: decisions and their reasons, preferences, traps. Not what the code already says.',
    'One memory per thing, with a title that can be searched for. scope project is for everybody on the project, personal for the member you work for.',
    'Search first: if it is there already, change it with memory_update. Never save keys or passwords: they are refused.',
  ].join('\n'),
} as const satisfies ToolDefinition

export const memoryUpdateTool = {
  ...common,
  name: 'memory_update',
  args: MemoryUpdate.extend({ id: MemoryId }),
  description: 'Change a memory that is out of date; earlier revisions are kept.',
  guidance:
    'Give only what changes. With expectedRevision it is refused if somebody has changed it since you read it.',
} as const satisfies ToolDefinition
