import type { Operation } from '../../contract/operation.ts'
import { diffNames } from '../../contract/diff-names.ts'
import { patchHeadingNames } from '../../contract/patch-headings.ts'
import type { Category, PermissionRequest, Risk } from '../../contract/permission.ts'
import { hostOf } from './matching/hosts.ts'
import { egressTool } from '../../contract/ask.ts'
import { expandHomePath, isSecretPath, isSessionPath, resolvePath } from './matching/paths.ts'
import { literalArg } from './shell/words/arg.ts'
import { assignmentFindings } from './shell/words/assignments.ts'

/** Where the session is and who acts in it. */
export interface RequestContext {
  agent: string | null
  subagent: string | null
  mode: string
  workspaceRoot: string
  sessionPaths: readonly string[]
  home?: string | undefined
  /** That every command of OpenCode's shell starts with. */
  variables?: Record<string, string>
}

interface ToolUse extends RequestContext {
  tool: string
  input: unknown
  /** As the model sees them. */
  contractTools: readonly string[]
  /** Gantry's own, of those that the session has. */
  ownTools?: readonly OwnTool[]
}

export interface OwnTool {
  tool: string
  category: Category
}

/** What a tool or an operation asks for; paths as they were given. null: it cannot be told from the input. */
interface Meaning {
  category: Category
  operation: string
  paths?: readonly (string | null)[]
  hosts?: readonly (string | null)[]
  command?: string | null
  cwd?: string | null | undefined
  risks?: readonly Risk[]
}

/** What OpenCode's gate asks: built-in tools by their inputs, the contract's and Gantry's own by name, everything else as a provider's. */
export function requestOfTool({
  tool,
  input,
  contractTools,
  ownTools = [],
  ...context
}: ToolUse): PermissionRequest {
  const fields = isRecord(input) ? input : {}
  const builtin = Object.hasOwn(builtins, tool) ? builtins[tool] : undefined
  const own = ownTools.find((one) => one.tool === tool)
  const meaning = contractTools.includes(tool)
    ? { category: 'provider-tool' as const, operation: 'contract-tool' }
    : own
      ? { category: own.category, operation: ownToolOperation }
      : (builtin?.(fields, context) ?? { category: 'provider-tool' as const, operation: 'tool' })
  return requestOf(meaning, tool, context)
}

/** The operation of a request for one of Gantry's own tools. */
export const ownToolOperation = 'own-tool'

type Fields = Record<string, unknown>
const isRecord = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const text = (value: unknown): string | null =>
  typeof value === 'string' && value !== '' ? value : null

type Builtin = (input: Fields, context: RequestContext) => Meaning

const file =
  (category: Category, operation: string): Builtin =>
  (input) => ({ category, operation, paths: [text(input['filePath'])] })

const search =
  (operation: string, patternIsPath: boolean): Builtin =>
  (input, { workspaceRoot }) => {
    const folder = input['path'] === undefined ? workspaceRoot : text(input['path'])
    const pattern = text(patternIsPath ? input['pattern'] : input['include'])
    const named = patternPaths(folder, pattern)
    const paths = [...new Set([folder, ...named, ...reached(folder, pattern)])]
    return { category: 'read', operation, paths }
  }

/** A pattern can leave the folder that is searched, ask for secrets only, or name a folder in it. */
function patternPaths(folder: string | null, pattern: string | null): string[] {
  if (folder === null || pattern === null) return []
  if (/^[/~]/.test(pattern) || climbs.test(pattern))
    return [/^[/~]/.test(pattern) ? pattern : `${folder}/${pattern}`]
  const namesFolder = /^(?:\.\/)*[^*/?][^/]*\//.test(pattern)
  return namesFolder || isSecretPath(`/${pattern}`) ? [`${folder}/${pattern}`] : []
}

/** Tools that show what lies in a folder without being given its names. */
export const searchTools: ReadonlySet<string | null> = new Set(['glob', 'grep', 'list'])

/** Whatever lies in the folder and fits may be shown: a rule may be about some of it. */
function reached(folder: string | null, pattern: string | null): string[] {
  if (folder === null) return []
  const each = alternatives(pattern?.replace(/^(?:\.\/)+/, '') ?? '')
  const isPlain = each.every((one) => /^[\w.*?@+-][\w.*?/@+-]*$/.test(one) && !climbs.test(one))
  if (!isPlain) return [`${folder}/**`]
  return each.map((one) => `${folder}/${one.includes('/') ? '' : '**/'}${one}`)
}

/** Of one list in braces; several stay as they are. */
function alternatives(pattern: string): string[] {
  const list = /\{([^{}]{0,100})\}/.exec(pattern)
  return list?.[1]?.split(',').map((one) => pattern.replace(list[0], () => one)) ?? [pattern]
}
const climbs = /(?:^|\/)\.\.(?:\/|$)/

const fetching: Builtin = (input) => ({
  category: 'network',
  operation: 'fetch',
  hosts: [hostOf(text(input['url']) ?? '')],
})
const searching: Builtin = () => ({ category: 'network', operation: 'search' })
const bookkeeping: Builtin = () => ({ category: 'provider-tool', operation: 'bookkeeping' })

/** An address of numbers comes without brackets. */
const connectedHost = (host: string): string | null =>
  host.includes(':') ? (/^[0-9a-f:.]+$/i.test(host) ? host.toLowerCase() : null) : hostOf(host)

/** Asked by the sandbox's proxy, for whatever has opened a connection. */
const connecting: Builtin = (input) => ({
  category: 'network',
  operation: 'connect',
  hosts: [connectedHost(text(input['host']) ?? '')],
})

const builtins: Record<string, Builtin> = {
  [egressTool]: connecting,
  read: file('read', 'read-file'),
  write: file('edit', 'write-file'),
  edit: file('edit', 'write-file'),
  multiedit: file('edit', 'write-file'),
  lsp: file('read', 'read-file'),
  glob: search('list-folder', true),
  grep: search('search', false),
  list: search('list-folder', false),
  apply_patch: (input) => ({
    category: 'edit',
    operation: 'apply-patch',
    paths: patchPaths(text(input['patchText']) ?? ''),
  }),
  bash: (input, { workspaceRoot }) => ({
    category: 'shell',
    operation: 'run',
    command: text(input['command']),
    cwd: input['workdir'] === undefined ? workspaceRoot : text(input['workdir']),
  }),
  webfetch: fetching,
  websearch: searching,
  codesearch: searching,
  task: bookkeeping,
  skill: bookkeeping,
  todowrite: bookkeeping,
  todoread: bookkeeping,
  question: bookkeeping,
  // What OpenCode makes of a call that it could not understand: it only tells the model so.
  invalid: bookkeeping,
}

/** An operation of the API. What it does says its category; a caller who says otherwise is not believed. */
export function requestOfOperation(
  operation: Operation,
  context: RequestContext,
): PermissionRequest {
  const meaning = meaningOf(operation)
  const believed =
    operation.operation === 'other' || categories(operation).includes(operation.category)
  const risks = [
    ...operation.risks,
    ...(believed ? [] : ['ambiguous' as const]),
    ...(meaning.risks ?? []),
  ]
  const said = believed ? operation.category : meaning.category
  const category = operation.network && said !== 'secrets' ? 'network' : said
  return requestOf({ ...meaning, category, risks }, operation.tool ?? null, context)
}

/** A run may be called by what it runs; everything may be called secret. */
const categories = (operation: Operation): Category[] => {
  const { category } = meaningOf(operation)
  return operation.operation === 'run'
    ? ['shell', 'git', 'network', 'secrets', 'external-directory']
    : [category, 'secrets', 'external-directory']
}

function meaningOf(operation: Operation): Meaning {
  const { operation: name, targetPath = null, url, args, command = null } = operation
  switch (name) {
    case 'read-file':
      return { category: 'read', operation: name, paths: [targetPath] }
    case 'list-folder':
      return { category: 'read', operation: name, paths: [targetPath ?? '.'] }
    case 'write-file':
    case 'delete-file':
    case 'revert-file':
      return { category: 'edit', operation: name, paths: [targetPath] }
    case 'apply-patch':
      return {
        category: 'edit',
        operation: name,
        paths: orNone(diffNames(operation.patch ?? '')),
      }
    case 'git':
      return {
        category: 'git',
        operation: name,
        command: args ? ['git', ...args].map(quoted).join(' ') : null,
      }
    case 'run':
      return {
        category: 'shell',
        operation: name,
        command,
        ...(operation.cwd === undefined ? {} : { cwd: operation.cwd }),
        risks: steered(operation),
      }
    case 'fetch':
      return { category: 'network', operation: name, hosts: [hostOf(url ?? '')] }
    default:
      return {
        category: operation.category,
        operation: name,
        paths: targetPath === null ? [] : [targetPath],
      }
  }
}

const quoted = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`

/** Where programs are looked for decides what the command's names mean. */
const steered = ({ environment = {} }: Operation): Risk[] =>
  Object.entries(environment).some(
    ([name, value]) => name === 'PATH' || assignmentFindings(name, literalArg(value)).length > 0,
  )
    ? ['ambiguous']
    : []

function requestOf(
  meaning: Meaning,
  tool: string | null,
  context: RequestContext,
): PermissionRequest {
  const { agent, subagent, mode, workspaceRoot, home, variables } = context
  const place = (path: string) => resolvePath(workspaceRoot, expandHomePath(path, home))
  const { category, operation, command, cwd } = meaning
  const paths = known(meaning.paths).map(place)
  const sessionPaths = [...context.sessionPaths]
  const unclear = [meaning.paths ?? [], meaning.hosts ?? [], [command, cwd]].some((list) =>
    list.includes(null),
  )
  const risks = new Set<Risk>(meaning.risks ?? [])
  if (unclear) risks.add('ambiguous')
  const secret =
    category === 'read' &&
    paths.some(
      (path) => isSecretPath(path) && !isSessionPath(path, { workspaceRoot, sessionPaths }),
    )
  return {
    category: secret ? 'secrets' : category,
    operation,
    ...{ tool, agent, subagent, mode, workspaceRoot, sessionPaths, paths },
    command: command ?? null,
    hosts: known(meaning.hosts),
    risks: [...risks],
    ...(cwd ? { cwd: place(cwd) } : {}),
    ...(home === undefined ? {} : { home }),
    // What the API runs has the environment that its caller gives it.
    ...(variables && tool === 'bash' ? { variables } : {}),
  }
}

const known = (list: readonly (string | null)[] = []): string[] =>
  list.filter((item): item is string => item !== null)

/** OpenCode's own format. A heading without a name, or none at all: it cannot be told. */
const patchPaths = (text: string): (string | null)[] =>
  orNone(patchHeadingNames(text).map((name) => (name === '' ? null : name)))

const orNone = (paths: (string | null)[]): (string | null)[] => (paths.length > 0 ? paths : [null])
