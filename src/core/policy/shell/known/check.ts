import { type Arg, hole, isKnown, literalArg } from '../words/arg.ts'
import { ambiguous, type Finding, type Nested } from '../words/finding.ts'
import { isText, textValues } from '../words/operands.ts'
import { files } from './files.ts'
import { network } from './network.ts'
import { system } from './system.ts'
import type { Known } from './table.ts'
import { text } from './text.ts'
import { readToolArgs } from './tool-args.ts'
import { toolOptionFindings } from './tool-options.ts'
import { tools } from './tools.ts'

const tables = [files, text, system, tools, network]

const knownProgram = (program: string): Known | undefined => {
  for (const table of tables) {
    const known = table.get(program)
    if (known) return known
  }
  return undefined
}

/** A tool that builds, tests or checks the project. */
export const isKnownTool = (program: string): boolean => knownProgram(program)?.open === true

export interface Checked {
  findings: Finding[]
  /** Values that are glued to their options, and may be paths. */
  glued: Arg[]
  /** Commands that a tool of the project is told to run, and places that it is sent to. */
  nested: readonly Nested[]
  hosts: readonly string[]
}
const nothingElse = { glued: [], nested: [], hosts: [] }

interface Judged {
  /** The program is a file of the project, or a function of the script. */
  isOwn: boolean
  /** What follows the option is looked into. */
  isReadAsCode: (option: string) => boolean
  /** Programs that are known by what they may do. */
  isDangerous: (program: string) => boolean
}

/**
 * What keeps a command from being clear: a program that is not known, an option that is not known to it, and words that are
 * only known when it runs.
 */
export function checkKnown(
  program: string,
  args: readonly Arg[],
  { isOwn, isReadAsCode, isDangerous }: Judged,
): Checked {
  const known = knownProgram(program)
  const loose = args.filter((arg) => isLoose(program, arg))
  const findings = loose.length > 0 ? [ambiguous('An argument is known only when it runs')] : []
  if (!known && !isOwn)
    return {
      findings: [...findings, ambiguous(`"${program}" is not a program that is known here`)],
      ...nothingElse,
    }
  if (!known) return { findings, ...nothingElse }
  // What is not an option to them, they print.
  if (printers.has(program)) return { findings, ...nothingElse }
  if (known.open) {
    // A program of the system: what it would do is known, and is no tool of the project's.
    const isProgram = (name: string) => isDangerous(name) || knownProgram(name)?.open === false
    const read = readToolArgs(program, args, { isReadAsCode, isProgram })
    const options = toolOptionFindings(program, args, isReadAsCode)
    return { ...nothingElse, ...read, findings: [...findings, ...options, ...read.findings] }
  }
  const checked = checkOptions(program, known, args)
  return { ...checked, findings: [...findings, ...checked.findings] }
}

const printers = new Set(['echo', 'print', ':', 'true', 'false'])

/** Outside of quotes it may be several words, and options among them; as an option it may be any. */
function isLoose(program: string, arg: Arg): boolean {
  if (isKnown(arg) || isText(program)) return false
  return arg.splits || (arg.value.startsWith('-') && arg.value.indexOf(hole) < optionEnd(arg.value))
}

const optionEnd = (value: string): number => {
  const at = value.indexOf('=')
  return value.startsWith('--') && at > 0 ? at : value.length
}

function checkOptions(program: string, known: Known, args: readonly Arg[]): Checked {
  const checked: Checked = { findings: [], glued: [], nested: [], hosts: [] }
  const unknown = (option: string) =>
    checked.findings.push(
      ambiguous(`"${option.slice(0, 40)}" is not an option that is known of "${program}"`),
    )
  const asText = textValues(program)
  for (let index = 0; index < args.length; index += 1) {
    const { value, globs } = args[index] as Arg
    if (value === '--') break
    const isCluster = program.endsWith('tar') && index === 0 && /^[a-zA-Z]+$/.test(value)
    if (!isCluster && !isOption(value, known)) continue
    if (value.startsWith('--') || isWord(value, known)) {
      const name = (value.split('=')[0] ?? '').replace(/^--?/, '')
      if (!known.long.has(name)) unknown(value)
      continue
    }
    if (/^[-+]\d+$/.test(value) && known.digits) continue
    const rest = gluedValue(isCluster ? `-${value}` : value, known)
    if (rest === null) unknown(value)
    else if (rest.value === '' && rest.letter !== '' && !isCluster) index += 1
    else if (rest.value !== '' && (!asText.has(rest.letter) || rest.value.startsWith('@')))
      checked.glued.push({ ...literalArg(rest.value.replace(/^[@=]/, '')), globs })
  }
  return checked
}

const isOption = (value: string, { digits }: Known): boolean =>
  value.length > 1 && (value.startsWith('-') || (digits && /^\+\d/.test(value)))

/** `find -name`: one dash, and a word. */
const isWord = (value: string, { long, flags }: Known): boolean =>
  long.has(value.slice(1)) && !(flags.has(value[1] ?? '') && flags.has(value[2] ?? ''))

/** What stands behind the letters; null: one of them is not known. */
function gluedValue(
  value: string,
  { flags, values }: Known,
): { letter: string; value: string } | null {
  for (let at = 1; at < value.length; at += 1) {
    const letter = value[at] ?? ''
    const rest = value.slice(at + 1)
    if (values.has(letter) && (rest !== '' || !flags.has(letter))) return { letter, value: rest }
    if (!flags.has(letter)) return null
  }
  return { letter: '', value: '' }
}
