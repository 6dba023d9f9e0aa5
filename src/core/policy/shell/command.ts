import { type Arg, isKnown, textOf } from './words/arg.ts'
import { ambiguous, type Finding, type Nested } from './words/finding.ts'
import {
  type Flow,
  maxDepth,
  maxWords,
  type Outcome,
  plainSegment,
  type Reading,
  unchanged,
  union,
} from './words/flow.ts'
import { locate } from './words/locate.ts'
import type { Redirects } from './redirects.ts'
import type { Segment } from './words/segment.ts'
import { isRunner } from './programs/shells.ts'
import {
  simpleGitFindings,
  locateSimpleArgs,
  simpleProgramPath,
  readSimple,
} from './programs/simple.ts'
import type { Situation } from './programs/situation.ts'
import { unwrapWrapper } from './programs/wrappers.ts'

/** What stands around the words of a command. */
export type Extras = Pick<Redirects, 'paths' | 'hosts' | 'findings'>
const noExtras: Extras = { paths: [], hosts: [], findings: [] }

/** Reads a simple command and everything that it runs in turn. */
export function readCommand(
  words: readonly Arg[],
  flow: Flow,
  reading: Reading,
  extras: Extras = noExtras,
  fed = false,
): Outcome {
  const [name, ...args] = words
  const add = (segment: Segment) => reading.add(withExtras(segment, extras))
  if (!name) return unchanged(flow)
  if (flow.depth > maxDepth || words.length > maxWords) {
    add(plainSegment(textOf(words.slice(0, 20)), [ambiguous('Too much to judge')]))
    return unchanged(flow)
  }
  const at = situationOf(flow, reading, fed)
  const program = programOf(name)
  if (program === null) {
    const located = locateSimpleArgs('', args, at)
    const why = 'The name of the command is known only when it runs'
    add({
      ...plainSegment(textOf(words), [ambiguous(why), ...located.findings]),
      paths: located.paths,
    })
    return unchanged(flow)
  }
  if (folderChanges.has(program)) return changeFolder(words, flow, reading, extras)
  if (readWrapper(program, words, flow, reading, extras, fed)) return unchanged(flow)
  const { segment, nested } = readSimple(program, words, at)
  const blind = fed && isRunner(program) && args.every(({ value }) => value.startsWith('-'))
  add(blind ? { ...segment, findings: [...segment.findings, becomesCommand] } : segment)
  const done = runNested(nested, flow, reading, { same: program === 'eval', fed: false })
  return { done, failed: flow.folders }
}

const becomesCommand = ambiguous('What is read becomes a command')

const situationOf = (flow: Flow, reading: Reading, fed: boolean): Situation => ({
  around: reading.around(flow),
  isInside: reading.isInside,
  stdin: flow.stdin,
  captured: flow.captured,
  fed,
  listed: flow.listed,
  isFunction: (name) => flow.variables?.functions.has(name) ?? false,
})

function withExtras(segment: Segment, { paths, hosts, findings }: Extras): Segment {
  if (paths.length + hosts.length + findings.length === 0) return segment
  return {
    ...segment,
    category: hosts.length > 0 && segment.category === 'shell' ? 'network' : segment.category,
    paths: [...segment.paths, ...paths],
    hosts: [...segment.hosts, ...hosts],
    findings: [...segment.findings, ...findings],
  }
}

/** The name that the tables know it by; null if only the run will show it. */
function programOf(name: Arg): string | null {
  if (
    !isKnown(name) ||
    name.expands ||
    name.value.startsWith('-') ||
    /[*?[\]]/.test(name.value.replace(/^\[\[?$/, ''))
  )
    return null
  const file = name.value.split('/').at(-1) ?? ''
  return file === '' ? null : file.toLowerCase()
}

/** True if the command only runs another one. */
function readWrapper(
  program: string,
  words: readonly Arg[],
  flow: Flow,
  reading: Reading,
  extras: Extras,
  fed: boolean,
): boolean {
  const args = words.slice(1)
  if (program === 'command' && args.some(({ value }) => /^-[vV]+$/.test(value))) return false
  const unwrapped = unwrapWrapper(program, args)
  if (!unwrapped) return false
  if (fed && unwrapped.nested.length === 0) unwrapped.findings.push(becomesCommand)
  if (unwrapped.nested.length + unwrapped.findings.length === 0) return false
  const { nested, own, hosts } = unwrapped
  const inner = nested.reduce(
    (sum, part) => sum + (part.kind === 'command' ? part.words.length : 0),
    0,
  )
  const before = args.slice(0, args.length - inner)
  const at = situationOf(flow, reading, false)
  const located = locateSimpleArgs('', before, at)
  const paths = [...simpleProgramPath(words[0] as Arg, at), ...located.paths]
  const segment = wrapperSegment(program, words, at, own, [
    ...unwrapped.findings,
    ...located.findings,
    ...simpleGitFindings(program, before, located.paths, at),
  ])
  const around = { ...extras, hosts: [...extras.hosts, ...hosts] }
  const whole = withExtras({ ...segment, paths: [...segment.paths, ...paths] }, around)
  if (own || whole.findings.length + whole.paths.length + whole.hosts.length > 0) reading.add(whole)
  runNested(nested, flow, reading, { same: false, fed })
  return true
}

/** Only those that do something themselves have risks of their own. */
function wrapperSegment(
  program: string,
  words: readonly Arg[],
  at: Situation,
  own: boolean,
  findings: readonly Finding[],
): Segment {
  if (!own) return plainSegment(textOf(words), findings)
  const { segment } = readSimple(program, words.slice(0, 1), { ...at, stdin: { kind: 'none' } })
  return { ...segment, text: textOf(words), findings: [...segment.findings, ...findings] }
}

/** Only `eval` runs in the same shell, so only there a change of folder remains. */
function runNested(
  nested: readonly Nested[],
  flow: Flow,
  reading: Reading,
  { same, fed }: { same: boolean; fed: boolean },
): readonly string[] {
  const inner: Flow = { ...flow, depth: flow.depth + 1 }
  const ends = nested.map((part) =>
    part.kind === 'script'
      ? reading.script(part.text, { ...inner, stdin: { kind: 'none' } })
      : union(
          ...Object.values(
            readCommand(
              part.words,
              { ...inner, listed: part.listed ?? inner.listed },
              reading,
              noExtras,
              part.fed || fed,
            ),
          ),
        ),
  )
  return same ? union(flow.folders, ...ends) : flow.folders
}

const folderChanges = new Set(['cd', 'chdir', 'pushd', 'popd'])

function changeFolder(
  words: readonly Arg[],
  flow: Flow,
  reading: Reading,
  extras: Extras,
): Outcome {
  const target = words.slice(1).find(({ value }) => value === '-' || !/^[-+]/.test(value))
  const text = textOf(words)
  const back = target?.value === '-' || words[0]?.value === 'popd'
  const located = target && !back ? locateFolder(target, flow, reading) : null
  const paths = back ? [...reading.visited] : (located?.paths ?? [reading.home ?? '/~'])
  const findings = [...(located?.findings ?? [])]
  if (target && !back && paths.length === 0 && findings.length === 0)
    findings.push(ambiguous('The folder is known only when it runs'))
  if (back && reading.visited.size < 2) findings.push(ambiguous('The folder before is not known'))
  if (flow.inLoop && target?.value.includes('..'))
    findings.push(ambiguous('A loop climbs through folders'))
  for (const path of paths) reading.visited.add(path)
  const segment = {
    ...plainSegment(text, findings),
    paths: paths.map((path) => ({ path, read: false })),
  }
  reading.add(withExtras(segment, extras))
  return { done: paths.length > 0 ? paths : flow.folders, failed: flow.folders }
}

/** A plain name is a folder here, though it would be a word elsewhere. */
function locateFolder(target: Arg, flow: Flow, reading: Reading) {
  const value = isKnown(target) && !/^[~/.]/.test(target.value) ? `./${target.value}` : target.value
  const around = reading.around(flow)
  const located = locate({ ...target, value }, around, reading.isInside)
  return isKnown(target) ? located : { paths: [], findings: located.findings }
}
