import {
  type ArrayValue,
  type Command,
  forEachChild,
  type HereDoc,
  type SyntaxNode,
  type TestBinaryExpression,
  type TestUnaryExpression,
  type Word,
} from 'unbash'
import { parseShellScript } from '../policy/shell/words/parse.ts'
import {
  beforeRunner,
  evaluatesAssignments,
  isCodeVariable,
  scriptCommandTakesData,
  commandFeedsRunner,
  commandReadsCode,
  commandRunsInput,
} from './script-commands.ts'
import { type Filling, placeholdersOf, type Reference, placeholderValue } from './placeholders.ts'

/**
 * Values in shell scripts. Each placeholder is put in by the quoting at its place, so that the value arrives as it is and
 * nothing of it runs. A place whose quoting cannot be told, or whose text is read as code once more, is refused when the
 * ability is read.
 */

/** What stands around a placeholder. */
type Quoting =
  | { kind: 'bare' }
  | { kind: 'double' }
  | { kind: 'single' }
  | ({ kind: 'document'; quoted: boolean } & DocumentEnd)

interface DocumentEnd {
  end: string
  tabs: boolean
}

interface Slot {
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

export function readScriptSlots(source: string): ReadScript {
  const placeholders = placeholdersOf(source)
  if (placeholders.length === 0) return { texts: [source], slots: [] }
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
  const slots = placeholders.map(({ reference, text }, at) => ({
    reference,
    text,
    ...(found.get(marks[at] ?? '') ?? { quoting: { kind: 'bare' as const }, documents: [] }),
  }))
  return { texts, slots }
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

type FoundSlot = Pick<Slot, 'quoting' | 'documents'>

/**
 * Finds the marks of a script, and for each the quoting it stands in. It walks the parsed script once and changes nothing;
 * a mark in a place that it does not visit is not found, and so is refused by its caller.
 */
class Seeker {
  readonly #marks: readonly string[]
  readonly #found: Map<string, FoundSlot>
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
        for (const { body } of node.items) this.visit(body)
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
        if (scriptCommandTakesData(names, words.indexOf(part) + 1, this.#beginsWithMark))
          this.#word(part)
      } else if (part.type === 'Assignment') {
        if (!evaluatesAssignments(names) && !isCodeVariable(part.name)) this.#assigned(part.value)
      } else if (!runsInput || !isInput(part)) this.#redirect(part, names)
    }
  }

  readonly #beginsWithMark = (word: string): boolean =>
    this.#marks.some((mark) => word.startsWith(mark))

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
        // What is in backticks is read once more, with other rules for backslashes.
        if (part.script && !part.text.startsWith('`')) this.visit(part.script)
        return
      default:
        // Expansions, patterns, braces, $'…': refused, since nothing is found in them.
        return
    }
  }

  #note(text: string, quoting: Quoting): void {
    const documents = this.#documents
    for (const mark of this.#marks)
      if (text.includes(mark)) this.#found.set(mark, { quoting, documents })
  }
}

export type FilledScript = { script: string } | { problem: string }

/** By the name of an input whose value is not to be shown: the variable that has it. */
export type SecretVariables = ReadonlyMap<string, string>

/**
 * Puts the values in. A value that its place cannot hold is refused: it would not arrive as it is. Secret inputs are named
 * by their variables, so that the script can be shown.
 */
export function fillScriptSlots(
  { texts, slots }: SlottedScript,
  filling: Filling,
  secrets: SecretVariables = new Map(),
): FilledScript {
  let script = texts[0] ?? ''
  for (const [at, { reference, quoting, text }] of slots.entries()) {
    const variable = reference.kind === 'input' ? secrets.get(reference.name) : undefined
    if (variable !== undefined) {
      const named = quotedVariable(variable, quoting)
      if (named === null)
        return {
          problem: `Cannot fill ${text}: a secret cannot stand in a quoted here-document; read $ABILITY_INPUTS_JSON instead`,
        }
      script += named + (texts[at + 1] ?? '')
      continue
    }
    const value = placeholderValue(reference, filling)
    if (value.includes('\u0000') || !value.isWellFormed())
      return {
        problem: `Cannot fill ${text}: the value has characters that no program can be given`,
      }
    script += quoted(value, quoting) + (texts[at + 1] ?? '')
  }
  const broken = slots.find(({ documents }) =>
    documents.some((document) => !keepsEnd(slots, texts, filling, document)),
  )
  if (broken)
    return {
      problem: `Cannot fill ${broken.text}: a line of the value is the end of the here-document; read $ABILITY_INPUTS_JSON instead`,
    }
  return { script }
}

/** What a variable is replaced by is not read as code again, nor split inside of quotes. */
function quotedVariable(name: string, quoting: Quoting): string | null {
  if (quoting.kind === 'bare') return `"\${${name}}"`
  if (quoting.kind === 'single') return `'"\${${name}}"'`
  if (quoting.kind === 'double') return `\${${name}}`
  return quoting.quoted ? null : `\${${name}}`
}

function quoted(value: string, quoting: Quoting): string {
  const reopened = value.replaceAll("'", `'\\''`)
  if (quoting.kind === 'bare') return `'${reopened}'`
  if (quoting.kind === 'single') return reopened
  if (quoting.kind === 'double') return value.replaceAll(/[\\"$`]/g, '\\$&')
  return quoting.quoted ? value : value.replaceAll(/[\\$`]/g, '\\$&')
}

/** No value may bring a line that ends its here-document. */
function keepsEnd(
  slots: readonly Slot[],
  texts: readonly string[],
  filling: Filling,
  { end, tabs }: DocumentEnd,
): boolean {
  const count = (lines: string[]) =>
    lines.filter((line) => (tabs ? line.replace(/^\t+/, '') : line) === end).length
  const marked = texts.join('\u0001').split('\n')
  let filled = texts[0] ?? ''
  for (const [at, { reference, quoting }] of slots.entries())
    filled += quoted(placeholderValue(reference, filling), quoting) + (texts[at + 1] ?? '')
  return count(filled.split('\n')) <= count(marked)
}
