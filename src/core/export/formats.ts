// The same facts in the forms of others, so that tools that exist can read who wrote which lines. Only proven lines.

import { version } from '../../contract/version.ts'
import { hashText } from '../hash.ts'
import type { Range, WrittenFile } from './authorship.ts'

export interface Written {
  runId: string
  sessionId: string
  model: string
  at: number
  files: readonly WrittenFile[]
}

/** Agent Trace 0.1.0. A file of which no line is proven has an unknown contributor and no range. */
export function agentTraceFormat({ runId, sessionId, model, at, files }: Written): object {
  return {
    version: '0.1.0',
    id: uuidOf(`${runId} ${at}`),
    timestamp: new Date(at).toISOString(),
    tool: { name: 'gantry', version },
    files: files.map(({ path, ranges }) => ({
      path,
      conversations:
        ranges.size === 0
          ? [{ contributor: { type: 'unknown' }, ranges: [] }]
          : [...ranges.values()].map((own) => ({
              contributor: { type: 'ai', model_id: model },
              ranges: own.map(({ first, last }) => ({ start_line: first, end_line: last })),
            })),
    })),
    metadata: { 'dev.gantry': { runId, sessionId } },
  }
}

/** The form of a random one, so that readers take it; the same for the same run and time. */
function uuidOf(text: string): string {
  const hex = hashText(text)
  const variant = '89ab'.charAt(Number.parseInt(hex.charAt(16), 16) & 3)
  const parts = [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`]
  return [...parts, variant + hex.slice(17, 20), hex.slice(20, 32)].join('-')
}

/** git-ai's authorship/3.0.0: files with ranges by author, then what is known of each author. */
export function gitAiFormat({ runId, model, files }: Written): string {
  const members = [...new Set(files.flatMap(({ ranges }) => [...ranges.keys()]))]
  const ids = new Map(
    members.map((member) => [member, hashText(`${runId} ${member}`).slice(0, 16)]),
  )
  const proven = files.filter(({ ranges }) => ranges.size > 0)
  const lines = proven.flatMap(({ path, ranges }) => [
    /[\s"]|^---$/.test(path) ? JSON.stringify(path) : path,
    ...[...ranges].map(([member, own]) => `  ${ids.get(member)} ${own.map(shown).join(',')}`),
  ])
  const prompts = members.map((member) => {
    const own = proven.flatMap(({ ranges }) => ranges.get(member) ?? [])
    const accepted = own.reduce((total, { first, last }) => total + last - first + 1, 0)
    return [
      ids.get(member),
      {
        agent_id: { tool: 'opencode', id: runId, model },
        human_author: null,
        messages: [],
        ...{ total_additions: accepted, total_deletions: 0 },
        ...{ accepted_lines: accepted, overriden_lines: 0 },
      },
    ]
  })
  const metadata = {
    schema_version: 'authorship/3.0.0',
    base_commit_sha: '',
    prompts: Object.fromEntries(prompts) as object,
  }
  return `${[...lines, '---', JSON.stringify(metadata, null, 2)].join('\n')}\n`
}

const shown = ({ first, last }: Range) => (first === last ? String(first) : `${first}-${last}`)
