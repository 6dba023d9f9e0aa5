import { canonicalJson } from '../../../contract/canonical.ts'
import type { Target } from '../../../contract/eval-target.ts'
import type { PromotionKind, RegistryRevision } from '../../../contract/promotion.ts'
import { hashText } from '../../hash.ts'

/**
 * What the results of a target depend on beside its answers: what it was set to, and what its sessions began with. A run
 * speaks for a revision only if nothing else differs from the baseline, or a stronger model would release a weaker agent.
 */
export interface TargetConditions {
  /** By name; a value is compared as JSON. */
  settings: Readonly<Record<string, unknown>>
  /** All that any of its sessions began with, each once. Policies are a setting. */
  revisions: readonly RegistryRevision[]
}

/** They change how a run is seen or how fast it is, and nothing that is scored. */
const notCompared = new Set([
  ...['name', 'workers', 'judgeTarget', 'streamLogs', 'logDir', 'logFormat'],
])

export const conditionSettings = (target: Target): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(target).filter(([key, value]) => value !== undefined && !notCompared.has(key)),
  )

/** Which setting of a target names rows of the kind. */
const namingSetting: Record<PromotionKind, string> = {
  ...{ agent: 'agent', profile: 'profile', policy: 'policy', skill: 'skills', ability: 'ability' },
}
/** An agent or a profile may choose the model: then it is a part of the revision. */
const choosesModel = new Set<PromotionKind>(['agent', 'profile'])
export const sessionModelSetting = 'model of its sessions'
export const sessionMemorySetting = 'memory of its sessions'
/** A baseline of before has neither; a run that has tried a revision has both. */
const toldByNewerRuns = [sessionModelSetting, sessionMemorySetting]

export interface ConditionDifferences {
  /** Sentences. */
  differences: string[]
  /** What only the candidate had: no difference if the guarded project has exactly this. */
  brought: RegistryRevision[]
}

/** `promoted`: the one revision that may differ, with what names it. */
export function differencesOfConditions(
  baseline: TargetConditions,
  candidate: TargetConditions,
  promoted: Pick<RegistryRevision, 'kind' | 'name'> | null,
): ConditionDifferences {
  const [before, after] = [settingsBeside(baseline, promoted), settingsBeside(candidate, promoted)]
  for (const name of toldByNewerRuns)
    if (before[name] === undefined || after[name] === undefined)
      for (const side of [before, after]) delete side[name]
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted()
  const settings = names.flatMap((name) => {
    const [was, is] = [before[name], after[name]].map(valueText)
    return was === is ? [] : [settingSentence(name, was, is)]
  })
  const { sentences, brought } = revisionDifferences(baseline, candidate, promoted)
  return { differences: [...settings, ...sentences], brought }
}

function settingsBeside(
  { settings, revisions }: TargetConditions,
  promoted: Pick<RegistryRevision, 'kind' | 'name'> | null,
): Record<string, unknown> {
  const left = { ...settings }
  if (promoted === null) return left
  const { kind, name } = promoted
  if (choosesModel.has(kind)) delete left[sessionModelSetting]
  const key = namingSetting[kind]
  const value = left[key]
  if (kind === 'policy') {
    if (revisions.some((one) => one.kind === kind && one.name === name)) delete left[key]
  } else if (Array.isArray(value)) {
    const others = value.filter((one) => typeof one !== 'string' || skillNameOf(one) !== name)
    if (others.length === 0) delete left[key]
    else left[key] = others
  } else if (value === name) delete left[key]
  return left
}

/** As people write a skill: `review`, `personal:review`, `review@3`. */
const skillNameOf = (reference: string): string => reference.replaceAll(/^[^:]*:|@\d+$/g, '')

const valueText = (value: unknown): string => (value === undefined ? 'none' : canonicalJson(value))

/** The others are only named: a prompt is long, a hash says nothing, and a variable may have put a secret into a command. */
const shown = new Set([
  ...['provider', 'model', sessionModelSetting, 'reasoningEffort', 'agent', 'profile', 'skills'],
  ...['ability', 'permissions', 'sandbox', 'timeoutSeconds', 'maxRetries'],
])

function settingSentence(name: string, was = 'none', is = 'none'): string {
  const values = shown.has(name) ? ` (${is} instead of ${was})` : ''
  return `"${name}" is not as in the baseline${values}`
}

function revisionDifferences(
  baseline: TargetConditions,
  candidate: TargetConditions,
  promoted: Pick<RegistryRevision, 'kind' | 'name'> | null,
): { sentences: string[]; brought: RegistryRevision[] } {
  const [before, after] = [byName(baseline, promoted), byName(candidate, promoted)]
  const sentences: string[] = []
  const brought: RegistryRevision[] = []
  for (const [name, own] of after) {
    const was = before.get(name)
    if (was === undefined) brought.push(...own)
    else if (hashesOf(was) !== hashesOf(own))
      sentences.push(`The ${name} is another revision than in the baseline`)
  }
  // An agent that does not name a row any more goes without it, there as here.
  const mayDrop = promoted?.kind === 'agent'
  for (const name of before.keys())
    if (!mayDrop && !after.has(name)) sentences.push(`It had no ${name}, and the baseline had it`)
  return { sentences, brought }
}

function byName(
  { revisions }: TargetConditions,
  promoted: Pick<RegistryRevision, 'kind' | 'name'> | null,
): Map<string, RegistryRevision[]> {
  const found = new Map<string, RegistryRevision[]>()
  for (const one of revisions) {
    const isPromoted = one.kind === promoted?.kind && one.name === promoted.name
    if (isPromoted || one.kind === 'policy') continue
    const name = `${one.kind} "${one.name}"`
    found.set(name, [...(found.get(name) ?? []), one])
  }
  return found
}

const hashesOf = (revisions: readonly RegistryRevision[]): string =>
  revisions
    .map(({ sha256 }) => sha256)
    .toSorted()
    .join(' ')

/** Of what is too long to be compared as it is. */
export const conditionHash = (value: unknown): string => hashText(canonicalJson(value))
