import type { ApprovalDetails } from '../../../contract/approval.ts'
import type { PermissionRequest } from '../../../contract/permission.ts'
import { risksOf } from '../../policy/acts.ts'

// A list has two hundred of them, and a webhook's body at most 64 KiB.
const maxText = 4000
const maxPath = 500
const maxListed = 20
const maxTitle = 160

type Fields = Record<string, unknown>

/**
 * Reads off what was asked and decided on, both as they are stored, so without secrets. `operation` is a tool with its
 * input, or an operation of the API.
 */
export function approvalDetails(operation: unknown, request: PermissionRequest): ApprovalDetails {
  const given = givenOf(operation)
  const shown = new Shown()
  const { category, tool, agent, subagent, command, cwd = null, paths, hosts } = request
  const patch = patchOf(given)
  return {
    category,
    risks: risksOf(request),
    tool,
    agent,
    subagent,
    command: command === null ? null : shown.text(command),
    cwd: cwd === request.workspaceRoot ? null : cwd,
    paths: shown.list(paths),
    hosts: shown.list(hosts),
    patch: patch === null ? null : shown.text(patch),
    arguments: shown.rest(given),
    truncated: shown.truncated,
  }
}

/** For a line in a list. */
export function approvalTitle(name: string, { command, paths, hosts }: PermissionRequest): string {
  const what = command ?? paths[0] ?? hosts[0]
  return what === undefined ? name : cut(`${name}: ${what.replaceAll(/\s+/g, ' ')}`, maxTitle)
}

function givenOf(operation: unknown): Fields {
  const fields = isFields(operation) ? operation : {}
  if (!('input' in fields)) return fields
  return isFields(fields['input']) ? fields['input'] : { input: fields['input'] }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Shown by themselves, or known from elsewhere. */
const shownElsewhere = new Set(
  'category operation command patch patchText content oldString newString edits filePath targetPath tool risks'.split(
    ' ',
  ),
)

function patchOf(given: Fields): string | null {
  for (const name of ['patch', 'patchText']) {
    const text = given[name]
    if (typeof text === 'string') return text
  }
  if (typeof given['content'] === 'string') return marked('+', given['content'])
  const edits: unknown[] = Array.isArray(given['edits']) ? given['edits'] : [given]
  const changes = edits.filter(isFields).flatMap(changeOf)
  return changes.length > 0 ? changes.join('\n') : null
}

function changeOf({ oldString, newString }: Fields): string[] {
  if (typeof oldString !== 'string' || typeof newString !== 'string') return []
  return [oldString && marked('-', oldString), newString && marked('+', newString)].filter(Boolean)
}

const marked = (mark: string, text: string): string =>
  text
    .split('\n')
    .map((line) => `${mark}${line}`)
    .join('\n')

/**
 * Cuts the texts of one approval to what a person can read, and remembers whether something was left out. Each approval
 * is shown by a new one.
 */
class Shown {
  truncated = false

  text(text: string, max = maxText): string {
    if (text.length <= max) return text
    this.truncated = true
    return cut(text, max)
  }

  list(items: readonly string[]): string[] {
    this.truncated ||= items.length > maxListed
    return items.slice(0, maxListed).map((item) => this.text(item, maxPath))
  }

  rest(given: Fields): string | null {
    const rest = Object.entries(given).filter(
      ([name, value]) => !shownElsewhere.has(name) && value !== undefined && value !== null,
    )
    return rest.length === 0 ? null : this.text(JSON.stringify(Object.fromEntries(rest)))
  }
}

/** Never through the middle of a character. */
const cut = (text: string, max: number): string =>
  text.length <= max ? text : `${text.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '')}…`
