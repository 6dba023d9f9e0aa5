import type { Category, PermissionRequest, Risk } from '../../contract/permission.ts'
import { isGitFile, isInside, isSecretPath, isSessionPath } from './matching/paths.ts'
import { searchTools } from './permission-request.ts'
import type { Act, Rules } from './rules.ts'
import { isStrange } from './shell/words/parse.ts'
import type { Segment, SegmentPath } from './shell/words/segment.ts'
import { walkScript } from './shell/walk.ts'

/** Something to decide, with the words to explain it. */
export interface Step extends Omit<Act, 'enclosure'> {
  /** The part of the command, or the path, that it is about. */
  what: string
  /** Why it is risky or secret. */
  why: string
}

/** What is asked for, before it is taken apart. */
interface Whole {
  category: Category
  command: string | null
  what: string
  risks: readonly Risk[]
  why: string
  paths: readonly SegmentPath[]
  hosts: readonly string[]
  secret: string | null
  /** false: only where it leads counts. */
  acts: boolean
}

/** Everything in a request that must be allowed for it to be allowed. */
export function actSteps(
  request: PermissionRequest,
  rules: Rules,
  segmentsOf: ActSegments = readActSegments,
): Step[] {
  return wholesOf(request, segmentsOf).flatMap((whole) => split(whole, request, rules))
}

/** Whatever makes it, or a part of it, risky. */
export const risksOf = (request: PermissionRequest): Risk[] => [
  ...new Set(wholesOf(request, readActSegments).flatMap(({ risks }) => risks)),
]

function wholesOf(request: PermissionRequest, segmentsOf: ActSegments): Whole[] {
  const base = baseOf(request)
  if (request.command === null) return [base]
  const wholes = segmentsOf(request, request.command).map((segment) => wholeOf(segment, request))
  // The parts say what is done, unless there are none, or the caller says that it is more than a command.
  const plain = request.category === 'shell' || request.category === 'git'
  return [...wholes, plain && wholes.length > 0 ? { ...base, acts: false } : base]
}

/** The simple commands of a request's script. */
export type ActSegments = (request: PermissionRequest, command: string) => readonly Segment[]

const readActSegments: ActSegments = (request, command) =>
  walkScript(command, {
    cwd: request.cwd ?? request.workspaceRoot,
    home: request.home,
    variables: request.variables,
    isInside: (path) => isInside(path, request),
  })

const maxKept = 50
const maxKeptLength = 2000

/**
 * The same, and keeps the last ones, for one session: an agent sends the same few commands again and again, and reading
 * one is a fifth of a gate question. Whatever the reading depends on is in the key.
 */
export function keepActSegments(): ActSegments {
  const kept = new Map<string, readonly Segment[]>()
  return (request, command) => {
    const { cwd, home, variables, workspaceRoot, sessionPaths } = request
    const key = JSON.stringify([command, cwd, home, variables, workspaceRoot, sessionPaths])
    const known = kept.get(key)
    if (known !== undefined) return known
    const segments = readActSegments(request, command)
    if (kept.size >= maxKept) kept.clear()
    if (key.length <= maxKeptLength) kept.set(key, segments)
    return segments
  }
}

function baseOf(request: PermissionRequest): Whole {
  const { category, command, operation, paths, hosts, risks } = request
  const why = unclearWhy(request)
  const read = category === 'read' || category === 'secrets'
  return {
    category,
    command,
    what: command ?? paths[0] ?? hosts[0] ?? request.tool ?? operation,
    risks: why === '' ? risks : [...new Set([...risks, 'ambiguous' as const])],
    why,
    paths: [...paths, ...folderOf(request)].map((path) => ({
      ...{ path, read },
      ...(isSearch(request) && /[*?[{]/.test(path) && { kind: 'pattern' as const }),
    })),
    hosts,
    secret: null,
    acts: true,
  }
}

/** Their paths may be patterns; for all other tools these are ordinary letters. */
const isSearch = ({ command, tool }: PermissionRequest): boolean =>
  command === null && searchTools.has(tool)

/** Only what says where it reads or writes can be held to the workspace. */
function unclearWhy({ category, paths, hosts }: PermissionRequest): string {
  if ([...paths, ...hosts].some(isStrange)) return 'A name contains invisible characters'
  if (category === 'edit' && paths.some(isGitFile)) return "It changes git's own files"
  const placed = category === 'read' || category === 'edit'
  return placed && paths.length === 0 ? 'It does not say on which path' : ''
}

const folderOf = ({ cwd, workspaceRoot }: PermissionRequest): string[] =>
  cwd === undefined || cwd === workspaceRoot ? [] : [cwd]

/** The risks of the whole request are the risks of each of its parts. */
const wholeOf = (segment: Segment, { risks }: PermissionRequest): Whole => ({
  category: segment.category,
  command: segment.text,
  what: segment.text,
  risks: [...new Set([...risks, ...segment.findings.map(({ risk }) => risk)])],
  why: segment.findings[0]?.why ?? segment.secret ?? '',
  paths: segment.paths,
  hosts: segment.hosts,
  secret: segment.secret,
  acts: true,
})

/**
 * The act itself, and besides it each crossing of the boundary and each look at a secret: all of them must be allowed.
 * Paths and hosts are judged one by one only where a rule could tell them apart.
 */
function split(whole: Whole, request: PermissionRequest, rules: Rules): Step[] {
  const { category, command, what, risks, why } = whole
  const act = { category, command, risks, why, what, path: null, host: null }
  const named = whole.paths.filter(({ kind }) => kind !== 'any')
  const secrets = named.filter(
    ({ path, read }) => read && isSecretPath(path) && !isSessionPath(path, request),
  )
  const outside = named.filter(({ path }) => !isInside(path, request))
  const each = (kind: Category, list: readonly { path: string }[]): Step[] =>
    list.map(({ path }) => ({ ...act, category: kind, path, what: command ?? path }))
  // Reading a secret is not a read like others; a command that reads one remains a command.
  const replaced =
    category === 'read' && secrets.length > 0 && secrets.length === whole.paths.length
  return [
    ...each('external-directory', outside),
    ...each('secrets', secrets),
    ...(replaced || !whole.acts ? [] : acts(act, whole, rules)),
  ]
}

const maxPairs = 1000

function acts(act: Step, { paths, hosts }: Whole, rules: Rules): Step[] {
  const byPath: Pick<Step, 'path' | 'pathKind'>[] =
    rules.byPath && paths.length > 0
      ? paths.map(({ path, kind }) => ({ path, ...(kind && { pathKind: kind }) }))
      : [{ path: null }]
  const byHost = rules.byHost && hosts.length > 0 ? hosts : [null]
  if (byPath.length * byHost.length <= maxPairs)
    return byPath.flatMap((path) => byHost.map((host) => ({ ...act, ...path, host })))
  const unclear: Step = { ...act, risks: [...act.risks, 'ambiguous'], why: 'Too much to judge' }
  return [
    ...byPath.map((path) => ({ ...unclear, ...path })),
    ...byHost.map((host) => ({ ...unclear, host })),
  ]
}
