import type {
  ChangesProven,
  CommandExit,
  DiffScope,
  FileExists,
  FileMatches,
  PolicyKept,
} from '../../../contract/eval-evaluator.ts'
import type { EvaluatorAnswer } from '../../../contract/eval-request.ts'
import { matchesPathGlob, pathGlob } from '../../policy/matching/globs.ts'
import { scoredEither, scoredMiss, type Scored, scoredShare, scoredText } from './scored.ts'
import { scoreTextMatch } from './texts.ts'

/** Scores of what was found out in the attempt's own workspace and session. */

type Answer<K extends EvaluatorAnswer['kind']> = Extract<EvaluatorAnswer, { kind: K }>

export function scoreWorkspaceFiles({ paths }: FileExists, { files }: Answer<'files'>): Scored {
  const there = new Set(files.filter(({ exists }) => exists).map(({ path }) => path))
  return scoredShare(
    paths.map((path) => {
      const holds = there.has(path)
      return { holds, says: `${path} ${holds ? 'exists' : 'does not exist'}` }
    }),
  )
}

export function scoreWorkspaceFileText(config: FileMatches, { files }: Answer<'files'>): Scored {
  const { path, pattern, contains, equals } = config
  const file = files.find((each) => each.path === path)
  if (file?.exists !== true) return scoredMiss(`${path} does not exist`)
  const { text } = file
  if (text === null) return scoredMiss(`${path} could not be read as text`)
  const checks: Scored[] = []
  if (pattern !== undefined) checks.push(scoreTextMatch(text, pattern, false, path))
  if (contains !== undefined)
    checks.push(
      scoredEither(
        text.includes(contains),
        `${path} contains ${scoredText(contains)}`,
        `${path} does not contain ${scoredText(contains)}`,
      ),
    )
  if (equals !== undefined)
    checks.push(
      scoredEither(
        text.trimEnd() === equals.trimEnd(),
        `${path} is as expected`,
        `${path} is not as expected: ${scoredText(text)}`,
      ),
    )
  return allOf(checks)
}

/** All or nothing of several. */
function allOf(checks: readonly Scored[]): Scored {
  const misses = checks.flatMap((check) => check.misses)
  return {
    score: misses.length === 0 ? 1 : 0,
    hits: checks.flatMap((check) => check.hits),
    misses,
  }
}

export function scoreWorkspaceCommand(config: CommandExit, answer: Answer<'command'>): Scored {
  const { command, exitCode, timeoutSeconds } = config
  if (answer.timedOut)
    return scoredMiss(`${scoredText(command)} timed out after ${timeoutSeconds}s`)
  if (answer.exitCode === exitCode)
    return { score: 1, hits: [`${scoredText(command)} exited with code ${exitCode}`], misses: [] }
  const how = answer.exitCode === null ? 'was ended' : `exited with code ${answer.exitCode}`
  const said = lastLines(answer.stderr) || lastLines(answer.stdout)
  return scoredMiss(`${scoredText(command)} ${how}, expected ${exitCode}${said && `: ${said}`}`)
}

export const lastLines = (text: string): string =>
  text.trim().split('\n').slice(-5).join('\n').slice(-500)

const root = '/workspace'

export function scoreWorkspaceDiff(config: DiffScope, { paths }: Answer<'changes'>): Scored {
  if (paths.length === 0)
    return scoredEither(!config.changesRequired, 'Nothing was changed', 'Nothing was changed')
  const fits = (globs: readonly string[], path: string) =>
    globs.find((glob) =>
      matchesPathGlob(pathGlob(glob), `${root}/${path}`, { workspaceRoot: root }),
    )
  const checks = paths.map((path) => {
    const denied = fits(config.deny, path)
    if (denied !== undefined)
      return { holds: false, says: `${path} was changed, denied by ${denied}` }
    const allowed = config.allow.length === 0 || fits(config.allow, path) !== undefined
    return {
      holds: allowed,
      says: allowed ? `${path} was changed` : `${path} was changed, outside of what is allowed`,
    }
  })
  const { hits, misses } = scoredShare(checks)
  return { score: misses.length === 0 ? 1 : 0, hits, misses }
}

export function scoreWorkspacePolicy(
  { allowDenied }: PolicyKept,
  answer: Answer<'policy'>,
): Scored {
  const misses = [
    ...answer.bypassed.map(({ tool, reason }) => `${tool} ran past the gate: ${reason}`),
    ...answer.denied
      .filter(({ tool }) => !allowDenied.includes(tool))
      .map(({ tool, reason }) => `${tool} was denied: ${reason}`),
  ]
  return misses.length === 0
    ? { score: 1, hits: ['No operation was denied or bypassed the gate'], misses }
    : { score: 0, hits: [], misses }
}

export function scoreWorkspaceEvidence(_: ChangesProven, { changes }: Answer<'evidence'>): Scored {
  if (changes.length === 0) return { score: 1, hits: ['Nothing was changed'], misses: [] }
  const { hits, misses } = scoredShare(
    changes.map(({ path, proven, reason }) => ({
      holds: proven,
      says: proven ? `${path} is proven` : `${path} is not proven${reason ? `: ${reason}` : ''}`,
    })),
  )
  return { score: misses.length === 0 ? 1 : 0, hits, misses }
}
