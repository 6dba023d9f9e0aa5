import { type EvalProblem } from '../../../contract/eval-suite.ts'
import { Target } from '../../../contract/eval-target.ts'
import type { DocumentPath } from '../../documents.ts'
import type { Folder } from './folder.ts'
import { isRecord, openReading, type Names, type Reading, type Settings } from './reading.ts'
import { readResponsesFile } from './responses.ts'

/**
 * Reads a targets file. Settings may be spelled in snake_case or camelCase and may stand under `settings`; what is left
 * after that must be known. `${{ NAME }}` is one of the variables that the caller gave: nothing is looked up.
 */
export interface ReadTargets {
  targets: Target[]
  problems: EvalProblem[]
}

const names: Names = {
  commandTemplate: 'command',
  autoApprove: 'permissions',
  permission: 'permissions',
  logDirectory: 'logDir',
  responsesFile: 'trace',
}
const providers = Target.options.map((option) => option.shape.provider.value)
const numbers = new Set([
  'workers',
  'timeoutSeconds',
  'maxRetries',
  'temperature',
  'maxOutputTokens',
])
/** What others know and Gantry does not: it would change nothing. */
const refused: Record<string, string> = {
  isolation: 'Cannot be set: every attempt has a sandbox and a workspace of its own',
  cwd: 'Only a cli target has it. OpenCode works in the root of its workspace: name the folder in the prompt',
}

export function readTargetsFile(
  folder: Folder,
  path: string,
  variables: Readonly<Record<string, string>>,
): ReadTargets {
  const text = folder.text(path)
  if (text === null)
    return {
      targets: [],
      problems: [
        {
          severity: 'error',
          filePath: path,
          location: '',
          message: 'There is no such file among those that were given',
        },
      ],
    }
  const opened = openReading(path, text)
  if ('problems' in opened) return { targets: [], problems: opened.problems }
  const { reading } = opened
  return { targets: targetsOf(reading, folder, variables), problems: reading.problems }
}

function targetsOf(
  reading: Reading,
  folder: Folder,
  variables: Readonly<Record<string, string>>,
): Target[] {
  const top = reading.settings(reading.value, [], { providers: 'targets' })
  if (top === null) return []
  for (const key of Object.keys(top))
    if (key !== 'targets') reading.tell('error', reading.pathOf(top, key), 'There is no such field')
  const list = top['targets']
  const path = reading.pathOf(top, 'targets')
  if (!Array.isArray(list)) {
    reading.tell('error', path, 'Needs a list of targets')
    return []
  }
  const seen = new Set<string>()
  const targets = list.flatMap((each: unknown, at) => {
    const target = readTarget(reading, folder, each, [...path, at], variables)
    if (target === null) return []
    if (!seen.has(target.name)) seen.add(target.name)
    else {
      reading.tell('error', [...path, at, 'name'], `There is already a target "${target.name}"`)
      return []
    }
    return [target]
  })
  checkJudges(reading, targets, list, path)
  return targets
}

function readTarget(
  reading: Reading,
  folder: Folder,
  given: unknown,
  path: DocumentPath,
  variables: Readonly<Record<string, string>>,
): Target | null {
  const before = reading.errorCount
  const settings = flat(reading, fill(reading, given, path, variables), path)
  if (settings === null || reading.errorCount > before) return null
  const { provider } = settings
  if (!providers.some((known) => known === provider)) {
    reading.tell(
      'error',
      reading.pathOf(settings, 'provider'),
      `Must be one of ${providers.join(', ')}`,
    )
    return null
  }
  if (settings['permissions'] === true) settings['permissions'] = 'once'
  if (settings['permissions'] === false) settings['permissions'] = 'reject'
  for (const [key, why] of Object.entries(refused))
    if (Object.hasOwn(settings, key) && !(key === 'cwd' && provider === 'cli'))
      reading.tell('error', reading.pathOf(settings, key), why)
  for (const [key, value] of Object.entries(settings)) settings[key] = plain(key, value)
  if (provider === 'replay') readResponsesFile(reading, folder, settings)
  if (reading.errorCount > before) return null
  return reading.parse(Target, settings, path)
}

/** A variable is always a text; where a number or a switch is meant, it is read as one. */
function plain(key: string, value: unknown): unknown {
  if (typeof value !== 'string') return value
  if (numbers.has(key) && /^-?\d+(\.\d+)?$/.test(value)) return Number(value)
  return key === 'streamLogs' && /^(true|false)$/.test(value) ? value === 'true' : value
}

/** What stands under `settings` is a setting like those beside it. */
function flat(reading: Reading, given: unknown, path: DocumentPath): Settings | null {
  const settings = reading.settings(given, path, names)
  if (settings === null || settings['settings'] === undefined) return settings
  const inner = reading.settings(settings['settings'], reading.pathOf(settings, 'settings'), names)
  delete settings['settings']
  for (const [key, value] of Object.entries(inner ?? {})) {
    const at = reading.pathOf(inner ?? {}, key)
    if (Object.hasOwn(settings, key))
      reading.tell('error', at, 'Is there already outside of "settings"')
    else reading.put(settings, key, value, at)
  }
  return settings
}

/** Every text, once: what a variable holds is not looked into again. */
function fill(
  reading: Reading,
  given: unknown,
  path: DocumentPath,
  variables: Readonly<Record<string, string>>,
): unknown {
  if (typeof given === 'string')
    return given.replaceAll(/\$\{\{\s*([^}]*?)\s*\}\}/g, (written, name: string) => {
      if (Object.hasOwn(variables, name)) return variables[name] ?? ''
      reading.tell(
        'error',
        path,
        `There is no variable "${name}": only those that are given by name can be used`,
      )
      return written
    })
  if (Array.isArray(given))
    return given.map((each: unknown, at) => fill(reading, each, [...path, at], variables))
  if (!isRecord(given)) return given
  return Object.fromEntries(
    Object.entries(given).map(([key, value]) => [
      key,
      fill(reading, value, [...path, key], variables),
    ]),
  )
}

/** A judge is a model, and not the one that is judged. */
function checkJudges(
  reading: Reading,
  targets: readonly Target[],
  list: readonly unknown[],
  path: DocumentPath,
): void {
  for (const { name, judgeTarget } of targets) {
    if (judgeTarget === undefined) continue
    const judge = targets.find((each) => each.name === judgeTarget)
    const at = list.findIndex((each) => isRecord(each) && each['name'] === name)
    const key = Object.keys(list[at] ?? {}).find((each) => /^judge_?target$/i.test(each))
    const here = [...path, at, key ?? 'judge_target']
    if (judge === undefined) reading.tell('error', here, `There is no target "${judgeTarget}"`)
    else if (judge.name === name) reading.tell('error', here, 'A target must not judge itself')
    else if (judge.provider !== 'http' && judge.provider !== 'replay')
      reading.tell('error', here, 'A judge must be a target of provider http')
  }
}
