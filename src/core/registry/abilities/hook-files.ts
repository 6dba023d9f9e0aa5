import type { AbilityFile } from '../../../contract/ability-folder.ts'
import type { Ability } from '../../abilities/definition.ts'
import { cutOutput } from '../../abilities/outputs.ts'

/**
 * What lies in `hooks/before` and `hooks/after` of an ability's folder. Scripts are hooks like those of the YAML, after
 * them and in the order of their names, and run from the pinned folder. A text in `hooks/before` is given to whoever
 * works on its agent and skill steps. Whoever makes the copy that is run calls it, so the plan, its steps and its hash have them all.
 */

/** A text for agents. */
export const isGuide = (path: string): boolean => kindOf(path)?.kind === 'guide'

/** As it is run. */
export function withHookFiles(ability: Ability, files: readonly HookFile[]): Ability {
  const found = byName(files.map(({ path }) => path))
  const scriptsOf = (part: Part) =>
    found.flatMap((one) => (one.kind === 'script' && one.part === part ? [one.command] : []))
  const guides = files
    .filter(({ path }) => isGuide(path))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1))
    .map(({ path, content }) => `### ${path}\n\n${(content ?? '').trim()}`)
  const { hooks } = ability
  return {
    ...ability,
    hooks: {
      ...hooks,
      before: [...hooks.before, ...scriptsOf('before')],
      after: [...hooks.after, ...scriptsOf('after')],
    },
    // Always: a key of the file that is called so is nobody's.
    guide: cutOutput(guides.join('\n\n'), maxGuide),
  }
}

/** Of all its texts together: about ten thousand tokens. */
const maxGuide = 40_000

/** Files there that nobody runs or reads. */
export const hookWarnings = (files: readonly { path: string }[]): string[] =>
  byName(files.map(({ path }) => path)).flatMap((one) =>
    one.kind === 'unread' ? [`Nobody runs "${one.path}": ${one.why}`] : [],
  )

type HookFile = Pick<AbilityFile, 'path'> & { content: string | null }
type Part = 'before' | 'after'
type Found = { path: string; part: Part } & (
  | { kind: 'script'; command: string }
  | { kind: 'guide' }
  | { kind: 'unread'; why: string }
)

const byName = (paths: readonly string[]): Found[] =>
  paths.toSorted().flatMap((path) => kindOf(path) ?? [])

/** By the end of its name, so that it needs neither a mode nor a first line. */
const programs: Readonly<Record<string, string>> = {
  ...{ sh: 'sh', bash: 'bash', py: 'python3', js: 'node', mjs: 'node', rb: 'ruby', pl: 'perl' },
}

/** Null: it is no file of hooks. */
function kindOf(path: string): Found | null {
  const [, part, name] = /^hooks\/(before|after)\/(.+)$/s.exec(path) ?? []
  if ((part !== 'before' && part !== 'after') || name === undefined) return null
  const unread = (why: string): Found => ({ kind: 'unread', path, part, why })
  if (name.includes('/')) return unread('it lies deeper than the folder of hooks')
  const end = /\.([a-z]+)$/.exec(name)?.[1] ?? ''
  if (end === 'md')
    return part === 'before'
      ? { kind: 'guide', path, part }
      : unread('a text is only given to agents from hooks/before')
  const program = Object.hasOwn(programs, end) ? programs[end] : undefined
  if (program === undefined)
    return unread(`its name must end with .${Object.keys(programs).join(', .')} or .md`)
  // A command must be able to name it without quotes, to run it from the pinned folder.
  if (!/^[\w@+][\w@.+-]*$/.test(name))
    return unread('its name must have letters, digits, ".", "_", "+", "@" and "-" only')
  return { kind: 'script', path, part, command: `${program} ${path}` }
}
