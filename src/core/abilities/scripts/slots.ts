import {
  type ArrayValue,
  type Command,
  forEachChild,
  type HereDoc,
  type Statement,
  type SyntaxNode,
  type TestBinaryExpression,
  type TestUnaryExpression,
  type Word,
} from 'unbash'
import { parseShellScript } from '../../policy/shell/words/parse.ts'
import {
  beforeRunner,
  evaluatesAssignments,
  isCodeVariable,
  scriptCommandTakesData,
  commandFeedsRunner,
  commandReadsCode,
  commandRunsInput,
} from './commands.ts'
import { type Reading, ScriptFlows } from './flows.ts'
import { placeholdersOf, type Reference } from './placeholders.ts'

/**
 * Values in shell scripts. Each placeholder is put in by the quoting at its place, so that the value arrives as it is and
 * nothing of it runs. A place whose quoting cannot be told, or whose text is read as code once more, is refused when the
 * ability is read.
 */

/** What stands around a placeholder. */
export type Quoting =
  | { kind: 'bare' }
  | { kind: 'double' }
  | { kind: 'single' }
  | ({ kind: 'document'; quoted: boolean } & DocumentEnd)

export interface DocumentEnd {
  end: string
  tabs: boolean
}

export interface Slot {
  reference: Reference
  quoting: Quoting
  /** The here-documents that it stands in, also by way of substitutions: their ends are found before anything else is read. */
  documents: readonly DocumentEnd[]
  /** As it was written. */
  text: string
}

/** A script in pieces: text, slot, text, slot, text. */
export interface SlottedScript {
  texts: readonly string[]
  slots: readonly Slot[]
}

export type ReadScript = SlottedScript | { problems: string[] }

/** What is known of the values beside the script. */
export interface ScriptValues {
  /** A number or a plain word, whatever the value is. */
  isNumeric: (reference: Reference) => boolean
  /** The variables of its environment, as they are written. */
  environment: Readonly<Record<string, string>>
}

const nothingKnown: ScriptValues = { isNumeric: () => false, environment: {} }

export function readScriptSlots(source: string, values: ScriptValues = nothingKnown): ReadScript {
  const placeholders = placeholdersOf(source)
  if (placeholders.length === 0) {
    const problems = environmentProblems(source, values)
    return problems.length > 0 ? { problems } : { texts: [source], slots: [] }
  }
  const marker = freeMarker(source)
  const marks = placeholders.map((_, at) => `${marker}${at}z`)
  const texts = textsBetween(source, placeholders)
  const script = parseShellScript(texts.reduce((all, text, at) => all + marks[at - 1] + text))
  if (script === null)
    return { problems: ['The script cannot be read, so no value can be put into it'] }
  if (script.bodies.size > 0)
    return { problems: ['The script is too long for values to be put into it'] }
  const found = new Map<string, FoundSlot>()
  const seeker = new Seeker(marks, found)
  for (const statement of script.statements) seeker.visit(statement)
  const problems = placeholders
    .filter(
      (_, at) =>
        !found.has(marks[at] ?? '') ||
        isEscaped(texts[at] ?? '', found.get(marks[at] ?? '')?.quoting),
    )
    .map(
      ({ text }) =>
        `${text} stands where its quoting cannot be told or where text is read as code; pass it as an argument, or read $ABILITY_INPUTS_JSON`,
    )
  if (problems.length > 0) return { problems }
  const flows = new ScriptFlows(script.statements, marks, expansionsAsData)
  const read = [
    ...placeholders.flatMap(({ reference, text }, at) =>
      values.isNumeric(reference) ? [] : readingProblem(flows, marks[at] ?? '', text),
    ),
    ...givenProblems(flows, values),
  ]
  if (read.length > 0) return { problems: read }
  const slots = placeholders.map(({ reference, text }, at) => ({
    reference,
    text,
    ...(found.get(marks[at] ?? '') ?? { quoting: { kind: 'bare' as const }, documents: [] }),
  }))
  return { texts, slots }
}

/** A script that cannot be read here is run as it is written. */
function environmentProblems(source: string, values: ScriptValues): string[] {
  if (Object.values(values.environment).every((text) => placeholdersOf(text).length === 0))
    return []
  const script = parseShellScript(source)
  return script === null
    ? []
    : givenProblems(new ScriptFlows(script.statements, [], expansionsAsData), values)
}

const givenProblems = (flows: ScriptFlows, { environment, isNumeric }: ScriptValues): string[] =>
  Object.entries(environment).flatMap(([name, given]) =>
    placeholdersOf(given)
      .filter(({ reference }) => !isNumeric(reference))
      .flatMap(({ text }) => readingProblem(flows, name, text)),
  )

/** Those that stand where a value may stand. */
function expansionsAsData(statements: readonly Statement[]): ReadonlySet<SyntaxNode> {
  const seeker = new Seeker([], new Map())
  for (const statement of statements) seeker.visit(statement)
  return seeker.expansions
}

function readingProblem(flows: ScriptFlows, source: string, text: string): string[] {
  const found = flows.readingOf(source)
  return found === null ? [] : [`${text} comes to ${nameOf(found.name)}, ${why[found.reading]}`]
}

const nameOf = (name: string): string =>
  name.startsWith('@')
    ? 'a positional parameter'
    : name.startsWith('./')
      ? `the file ${name.slice(2)}`
      : `$${name}`

const why: Record<Reading, string> = {
  number:
    'which the script reads as a number, and bash runs code in it; give the input "type: number", compare by [ "$A" -gt 1 ], or keep the digits alone by B=${A//[!0-9]/}',
  code: 'which the script reads as code, as a name or as a program; pass it as an argument',
}

/** Letters only, so that a shell reads it as part of a plain word, and nowhere in the text. */
function freeMarker(source: string): string {
  let marker = 'GantrySlot'
  while (source.includes(marker)) marker += 'Q'
  return marker
}

function textsBetween(
  source: string,
  placeholders: readonly { text: string; at: number }[],
): string[] {
  const starts = [0, ...placeholders.map(({ text, at }) => at + text.length)]
  return starts.map((start, index) => source.slice(start, placeholders[index]?.at ?? source.length))
}

/** A backslash right before it would take the first character of what is put in. */
function isEscaped(before: string, quoting: Quoting | undefined): boolean {
  const isLiteral = quoting?.kind === 'single' || (quoting?.kind === 'document' && quoting.quoted)
  return !isLiteral && /(?:^|[^\\])(?:\\\\)*\\$/.test(before)
}

const isInput = (part: SyntaxNode): boolean =>
  part.type !== 'Redirect' || part.operator.startsWith('<')

const isPart = (node: SyntaxNode): node is NonNullable<Word['parts']>[number] =>
  /^(?:Literal|Glob|SingleQuoted|DoubleQuoted|AnsiCQuoted|LocaleString|SimpleExpansion|ParameterExpansion|CommandExpansion|ArithmeticExpansion|ProcessSubstitution|ExtendedGlob|BraceExpansion)$/.test(
    node.type,
  )

type FoundSlot = Pick<Slot, 'quoting' | 'documents'>

/**
 * Finds the marks of a script, and for each the quoting it stands in. It walks the parsed script once and changes nothing;
 * a mark in a place that it does not visit is not found, and so is refused by its caller.
 */
class Seeker {
  readonly #marks: readonly string[]
  readonly #found: Map<string, FoundSlot>
  /** Variables in places where a value may stand. */
  readonly expansions = new Set<SyntaxNode>()
  /** What a variable holds is data there; a value that is put in would be read with other rules. */
  #takesVariables = false
  #documents: readonly DocumentEnd[] = []

  constructor(marks: readonly string[], found: Map<string, FoundSlot>) {
    this.#marks = marks
    this.#found = found
  }

  visit(node: SyntaxNode): void {
    switch (node.type) {
      case 'Command':
        return this.#command(node)
      case 'Word':
        return this.#word(node)
      case 'HereDoc':
        return
      case 'TestUnary':
      case 'TestBinary':
        return this.#test(node)
      case 'For':
      case 'Select':
        for (const word of node.wordlist ?? []) this.#word(word)
        return this.visit(node.body)
      case 'Case':
        this.#word(node.word)
        for (const { pattern, body } of node.items) {
          this.#variables(() => pattern.forEach((word) => this.#word(word)))
          this.visit(body)
        }
        return
      case 'Function':
        return this.visit(node.body)
      case 'Coproc':
      case 'ArithmeticCommand':
        return
      case 'ArithmeticFor':
        return this.visit(node.body)
      case 'Pipeline':
        // What comes before a program that runs its input is code.
        for (const command of node.commands.slice(beforeRunner(node.commands))) this.visit(command)
        return
      case 'Redirected':
        if (commandFeedsRunner(node.redirects)) return
        this.visit(node.command)
        for (const redirect of node.redirects)
          if (!isInput(redirect) || !commandRunsInput(node.command)) this.#redirect(redirect, null)
        return
      default:
        forEachChild(node, (child) => this.visit(child))
    }
  }

  #command(command: Command): void {
    const words = command.suffix.filter((part) => part.type === 'Word')
    const names = [command.name?.value ?? '', ...words.map(({ value }) => value)]
    const parts = [...command.prefix, ...command.suffix]
    if (commandFeedsRunner(parts)) return
    const runsInput = commandRunsInput(command)
    for (const part of parts) {
      if (part.type === 'Word') {
        if (scriptCommandTakesData(names, words.indexOf(part) + 1, this.#beginsWithValue))
          this.#word(part)
      } else if (part.type === 'Assignment') {
        if (!evaluatesAssignments(names) && !isCodeVariable(part.name)) this.#assigned(part.value)
      } else if (!runsInput || !isInput(part)) this.#redirect(part, names)
    }
  }

  readonly #beginsWithValue = (word: string): boolean =>
    /^[$`]/.test(word) || this.#marks.some((mark) => word.startsWith(mark))

  #assigned(value: Word | ArrayValue): void {
    if (value.type === 'Word') this.#word(value)
    // `[i]=v` in a list: the index is evaluated.
    else
      for (const element of value.elements) if (!element.text.startsWith('[')) this.#word(element)
  }

  #redirect(part: SyntaxNode, names: readonly string[] | null): void {
    if (part.type === 'HereDoc') {
      if (names === null || !commandReadsCode(names)) this.#document(part)
    } else if ('target' in part && part.target) {
      // Of a word that is no number bash evaluates an index.
      if (part.type === 'Redirect' && /^[<>]&$/.test(part.operator)) return
      const feedsCode = part.type === 'HereString' && names !== null && commandReadsCode(names)
      if (!feedsCode) this.#word(part.target)
    }
  }

  /** Numbers of `[[ a -eq b ]]` are evaluated, and `-v` evaluates the index of a name. */
  #test(node: TestUnaryExpression | TestBinaryExpression): void {
    if (/^-(eq|ne|lt|le|gt|ge|v|R)$/.test(node.operator)) return
    forEachChild(node, (child) => this.visit(child))
  }

  #document({ body, delimiter, operator }: HereDoc): void {
    const { value = '', quoted = false } = delimiter ?? {}
    const end = { end: value, tabs: operator === '<<-' }
    const quoting: Quoting = { kind: 'document', quoted, ...end }
    const around = this.#documents
    this.#documents = [...around, end]
    if (body.parts === undefined) this.#note(body.text, quoting)
    for (const part of body.parts ?? []) {
      if (part.type === 'Literal') this.#note(part.text, quoting)
      else this.#part(part)
    }
    this.#documents = around
  }

  #word(word: Word): void {
    if (word.parts === undefined) return this.#note(word.text, { kind: 'bare' })
    for (const part of word.parts) this.#part(part)
  }

  #part(part: NonNullable<Word['parts']>[number]): void {
    switch (part.type) {
      case 'Literal':
        return this.#note(part.text, { kind: 'bare' })
      case 'SingleQuoted':
        return this.#note(part.text, { kind: 'single' })
      case 'DoubleQuoted':
        for (const child of part.parts) {
          if (child.type === 'Literal') this.#note(child.text, { kind: 'double' })
          else this.#part(child)
        }
        return
      case 'CommandExpansion':
      case 'ProcessSubstitution':
        if (!part.script) return
        // What is in backticks is read once more, with other rules for backslashes.
        if (part.text.startsWith('`')) this.#variables(() => this.visit(part.script as SyntaxNode))
        else this.visit(part.script)
        return
      case 'ArithmeticExpansion':
        return
      case 'ParameterExpansion':
      case 'SimpleExpansion':
        this.expansions.add(part)
        return this.#inside(part)
      default:
        // Patterns, braces, $'…': refused, since no value is found in them.
        return this.#inside(part)
    }
  }

  /** Words of an expansion but its index and numbers; parts of a pattern. */
  #inside(part: NonNullable<Word['parts']>[number]): void {
    const index = part.type === 'ParameterExpansion' ? part.index : undefined
    if (part.type === 'ParameterExpansion' && part.operation?.type === 'Slice') return
    this.#variables(() =>
      forEachChild(part, (child) => {
        if (child !== index) this.#child(child)
      }),
    )
  }

  #child(node: SyntaxNode): void {
    if (node.type === 'Word') return this.#word(node)
    if (isPart(node)) return this.#part(node)
    forEachChild(node, (child) => this.#child(child))
  }

  #variables(visit: () => void): void {
    const around = this.#takesVariables
    this.#takesVariables = true
    visit()
    this.#takesVariables = around
  }

  #note(text: string, quoting: Quoting): void {
    const documents = this.#documents
    if (this.#takesVariables) return
    for (const mark of this.#marks)
      if (text.includes(mark)) this.#found.set(mark, { quoting, documents })
  }
}
