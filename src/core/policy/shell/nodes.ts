import {
  type AndOr,
  type Command,
  type CommandNode,
  type CompoundList,
  forEachChild,
  type ParameterOperation,
  type ParsedScript,
  type Pipeline,
  type SyntaxNode,
  type TestExpression,
} from 'unbash'
import { argOf, type Surroundings, textOf } from './words/arg.ts'
import { hidden, hidesSubstitution, isSecretVariable } from './words/assignments.ts'
import { ambiguous, type Finding } from './words/finding.ts'
import { plainSegment } from './words/flow.ts'
import { locate } from './words/locate.ts'
import { isAllFound } from './words/found.ts'
import type { Segment } from './words/segment.ts'

/** `set -e`: from then on a failure ends the script. */
export const setsStrict = (node: SyntaxNode): boolean =>
  node.type === 'Command' &&
  node.name?.value === 'set' &&
  node.args.some((arg) => arg.type === 'Word' && /^-[a-z]*e/.test(arg.value))

/** As written, without quotes. */
export const nodeWords = ({ name, args }: Command): string[] => [
  name?.value ?? '',
  ...args.map((arg) => (arg.type === 'Word' ? arg.value : '')),
]

/** With `set -x` the shell prints every command with the values in it, from then on. */
function nodeTraces(node: SyntaxNode): boolean {
  let traces = false
  const visit = (part: SyntaxNode): void => {
    if (part.type === 'Command' && tracers.test(part.name?.value ?? ''))
      traces ||= setsTrace(nodeWords(part))
    if (!traces) forEachChild(part, visit)
  }
  visit(node)
  return traces
}

const tracers = /^(?:set|shopt|eval|builtin|command|trap)$/
/** Also inside of the text of `eval`. */
const setsTrace = (words: readonly string[]): boolean =>
  words.some((word) =>
    /^-[a-zA-Z]*x|^xtrace$|\bset\s{1,4}-(?:[a-zA-Z]{0,20}x|o\s{1,4}xtrace)/.test(word),
  )

/** The secret variable that a script prints unnamed: with every command, or as `$_`, the last word of the command before. */
export function shownNodeSegments(statements: readonly SyntaxNode[]): Segment[] {
  let shows = statements.some(nodeTraces)
  const secrets: string[] = []
  const visit = (part: SyntaxNode): void => {
    const name = expandedName(part)
    shows ||= name === '_'
    if (isSecretVariable(name)) secrets.push(name)
    forEachChild(part, visit)
  }
  for (const statement of statements) visit(statement)
  const [secret] = secrets
  return shows && secret !== undefined
    ? [{ ...plainSegment('(values)', []), category: 'secrets', secret: `It prints "${secret}"` }]
    : []
}

function expandedName(part: SyntaxNode): string {
  if (part.type === 'SimpleExpansion') return part.text.slice(1)
  return part.type === 'ParameterExpansion' && part.prefix !== '#' ? part.parameter : ''
}

/** The next command makes arguments of what this one prints. */
export const isFed = (node: CommandNode | undefined): boolean =>
  node?.type === 'Command' && /^(?:xargs|parallel)$/.test(node.name?.value ?? '')

const lister = /^(?:ls|find|fd|fdfind)$/
const sifter = /^(?:sort|uniq|head|tail|grep|rg|egrep)$/
const listsNames = /^(?:-[a-zA-Z]*l[a-zA-Z]*|--files|--files-with-matches|--name-only)$/

/** Whether what comes out are still names of files below the folder: `git ls-files | grep ts`. */
export function nodeListsFiles(node: CommandNode, isFirst: boolean): boolean {
  if (node.type !== 'Command') return false
  const name = node.name?.value ?? ''
  if (!isFirst) return sifter.test(name)
  const args = node.args.map((arg) => (arg.type === 'Word' ? arg.value : ''))
  if (name === 'git')
    return (
      (args[0] === 'ls-files' && !showsUntracked(args)) ||
      (args[0] === 'diff' && args.includes('--name-only'))
    )
  if (listsHidden(name, args) || args.some(namesHidden)) return false
  return lister.test(name) || (sifter.test(name) && args.some((arg) => listsNames.test(arg)))
}

/** `ls .env`, `find .e*` */
const namesHidden = (arg: string): boolean => /(?:^|\/)\.[\w*?[]/.test(arg)

/** The whole folder with its files of secrets, and nothing that narrows it. */
function listsHidden(name: string, args: readonly string[]): boolean {
  if (name === 'find') return isAllFound(args)
  if (/^fd(?:find)?$/.test(name))
    return args.some((arg) => /^-[a-zA-Z]*[HuI]|^--(?:hidden|no-ignore|unrestricted)/.test(arg))
  return name === 'ls' && args.some((arg) => /^-[a-zA-Z]*[aA]|^--(?:all|almost-all)$/.test(arg))
}

/** Files that git does not know, ignored ones among them: `git ls-files -o`. */
const showsUntracked = (args: readonly string[]): boolean =>
  args.some((arg) => /^(?:-[a-zA-Z]*[oi]|--(?:others|ignored))/.test(arg)) &&
  !args.some((arg) => /^--exclude-standard$/.test(arg))

/** A function that calls itself may never end. */
export function nodeCalls(body: SyntaxNode, name: string): boolean {
  let found = false
  const visit = (node: SyntaxNode): void => {
    if (node.type === 'Command' && node.name?.value === name) found = true
    if (!found) forEachChild(node, visit)
  }
  visit(body)
  return found
}

/** `${x@P}` expands the value once more, substitutions included. */
const runsValue = (operation: ParameterOperation | undefined): boolean =>
  operation?.type === 'Unknown' ||
  (operation?.type === 'Transform' && !/^[QEAaUuLKk]$/.test(operation.operand.value))

/** `$((ls x))`: arithmetic to bash, which fails; a command to zsh. */
const looksLikeCommand = (text: string): boolean => /[\w)]\s+[A-Za-z_/.~'"]/.test(text)

/** Hands over every script inside the words of a node, and says what in them cannot be told. */
export function findInNodeWords(
  node: SyntaxNode,
  found: (script: ParsedScript, fed: boolean) => void,
  isNumber: (name: string) => boolean = () => true,
): Finding[] {
  const findings: Finding[] = []
  const read = (script: ParsedScript, fed: boolean): void => {
    if (script.errors?.length) findings.push(ambiguous('A substitution cannot be parsed'))
    found(script, fed)
  }
  const visit = (part: SyntaxNode): void => {
    if (part.type === 'ProcessSubstitution' && part.operator === '>' && part.script)
      return read(part.script, true)
    if (part.type === 'Script') return read(part, false)
    if (part.type === 'ParameterExpansion' && runsValue(part.operation))
      findings.push(ambiguous('A variable is run as a command'))
    if (part.type === 'ArithmeticExpansion' && looksLikeCommand(part.text))
      findings.push(ambiguous('Some shells run it as a command'))
    if (part.type === 'ParameterExpansion') findings.push(...parameterFindings(part, isNumber))
    if (
      part.type === 'ArithmeticExpansion' &&
      part.expression === undefined &&
      /[^\s$()]/.test(part.text)
    )
      findings.push(ambiguous(hidden))
    // What it prints would be evaluated once more.
    if (part.type === 'ArithmeticCommandExpansion') findings.push(ambiguous(hidden))
    if (part.type === 'ArithmeticWord' && !areNumbers(part.value, isNumber))
      findings.push(ambiguous(hidden))
    if (part.type === 'Assignment' && part.index && !areNumbers(part.index.text, isNumber))
      findings.push(ambiguous(hidden))
    if (part.type === 'HereDoc' && !part.closing)
      findings.push(ambiguous('A here-document does not end'))
    forEachChild(part, visit)
  }
  // Itself, too: `(( a[$(x)] ))` is one word.
  visit(node)
  return findings
}

/** Whatever arithmetic looks at is a number: it would run a substitution that it finds in a text. */
const areNumbers = (text: string, isNumber: (name: string) => boolean): boolean =>
  !/\$[\d@*{(]|`/.test(text) && (text.match(/[A-Za-z_]\w*/g) ?? []).every(isNumber)

type Parameter = Extract<SyntaxNode, { type: 'ParameterExpansion' }>

function parameterFindings(
  { index, operation, text }: Parameter,
  isNumber: (name: string) => boolean,
): Finding[] {
  const indexed = index && !/^[@*\d]+$/.test(index.value) ? index.text : ''
  const slice =
    operation?.type === 'Slice' ? `${operation.offset.text} ${operation.length?.text ?? ''}` : ''
  const findings = areNumbers(`${indexed} ${slice}`, isNumber) ? [] : [ambiguous(hidden)]
  // Where the quotes end depends on the shell and on its version.
  return operation && text.includes("'")
    ? [...findings, ambiguous('Quotes inside of an expansion')]
    : findings
}

const unclear = (text: string): Segment => plainSegment(`[[ ${text} ]]`, [ambiguous(hidden)])
const asksForFile = /^-[a-hkprsuwxLNOGS]$/

/** The files that `[[ … ]]` asks about. */
export function testNodeSegments(
  expression: TestExpression,
  around: Surroundings,
  isInside: (path: string) => boolean,
  isNumber: (name: string) => boolean,
): Segment[] {
  const inner = (part: TestExpression) => testNodeSegments(part, around, isInside, isNumber)
  switch (expression.type) {
    case 'TestLogical':
      return expression.operands.flatMap(inner)
    case 'TestNot':
      return inner(expression.operand)
    case 'TestGroup':
      return inner(expression.expression)
    case 'TestBinary': {
      const sides = [expression.left, expression.right].map((side) => argOf(side, around))
      const counts = /^-(?:eq|ne|lt|le|gt|ge)$/.test(expression.operator)
      const hides =
        sides.some(({ value }) => hidesSubstitution(value)) ||
        (counts &&
          !areNumbers(sides.map(({ text }) => text.replaceAll('"', '')).join(' '), isNumber))
      // The shell keeps what it has found under a name of its own.
      const secret = expression.operator === '=~' && sides[0]?.variables.find(isSecretVariable)
      if (secret) return [plainSegment('[[ =~ ]]', [ambiguous(`"${secret}" is handed on`)])]
      return hides ? [unclear(textOf(sides))] : []
    }
    default: {
      const target = argOf(expression.operand, around)
      if (hidesSubstitution(target.value)) return [unclear(textOf([target]))]
      if (!asksForFile.test(expression.operator)) return []
      const { paths, findings } = locate(target, around, isInside)
      const segment = plainSegment(`[[ ${expression.operator} ${textOf([target])} ]]`, findings)
      return [{ ...segment, paths: paths.map((path) => ({ path, read: false })) }]
    }
  }
}

/** What sets variables for the rest of the script. */
export const nodeDeclares = /^(?:export|declare|typeset|readonly|local)$/

/** The variables that are set once the node has run. */
export function nodeAssignedNames(node: CommandNode | Pipeline | AndOr | CompoundList): string[] {
  if (node.type === 'Pipeline' && node.commands.length === 1 && node.commands[0])
    return nodeAssignedNames(node.commands[0])
  // The first always runs, what comes after it perhaps not.
  if (node.type === 'AndOr') return node.commands[0] ? nodeAssignedNames(node.commands[0]) : []
  if (node.type !== 'Command' || (node.name && !nodeDeclares.test(node.name.value))) return []
  return [...node.prefix, ...node.suffix].flatMap((part) =>
    part.type === 'Assignment' ? [part.name] : [],
  )
}
