import { type Assignment, forEachChild, type Statement, type SyntaxNode, type Word } from 'unbash'
import { argsOf, hole } from './arg.ts'

/** What a variable may be set to somewhere in a script. */
type Source = { kind: 'word' | 'words'; word: Word } | { kind: 'number' } | { kind: 'unknown' }

/**
 * The variables that a script sets itself, each with every value that it may be given anywhere in it, whatever the order.
 * A value that depends on anything else is not known. The walk says which of them are set for certain at a place.
 */
export class Variables {
  readonly #sources = new Map<string, Source[]>()
  readonly #known = new Map<string, readonly string[] | null>()
  /** Names that the script gives a meaning of its own. */
  readonly functions = new Set<string>()
  readonly #home: string | undefined
  readonly #start: string
  readonly #given: Record<string, string>
  /** Something in it may set any variable, or splits words in another way. */
  #isOpaque = false
  #moves = false

  constructor(
    statements: readonly Statement[],
    place: { home: string | undefined; start: string; given: Record<string, string> },
  ) {
    this.#home = place.home
    this.#start = place.start
    this.#given = place.given
    for (const statement of statements) this.#visit(statement)
  }

  has(name: string): boolean {
    return this.#isOpaque || this.#sources.has(name)
  }

  /** What the environment is known to hold under a name that the script leaves alone. */
  given(name: string): readonly string[] | undefined {
    return Object.hasOwn(this.#given, name) ? [this.#given[name] ?? hole] : undefined
  }

  /** null: it cannot be told. */
  valuesOf(name: string): readonly string[] | null {
    if (this.#isOpaque) return null
    const known = this.#known.get(name)
    if (known !== undefined) return known
    // While it is looked for it is not known: a value made of itself never is.
    this.#known.set(name, null)
    const values = (this.#sources.get(name) ?? []).flatMap((source) => this.#valuesOf(source))
    const all =
      values.length === 0 || values.some((value) => value.includes(hole))
        ? null
        : [...new Set(values)]
    this.#known.set(name, all)
    return all
  }

  /** Nothing but numbers: arithmetic would look into any other text. */
  isNumber(name: string): boolean {
    return this.valuesOf(name)?.every((value) => /^-?\d*$/.test(value)) ?? false
  }

  #valuesOf(source: Source): string[] {
    if (source.kind === 'number') return ['0']
    if (source.kind === 'unknown') return [hole]
    const folders = this.#moves ? [] : [this.#start]
    const around = {
      home: this.#home,
      folders,
      values: (name: string) => (this.#sources.has(name) ? this.valuesOf(name) : this.given(name)),
    }
    const lists = argsOf(source.word, around)
    // A loop takes each of the words by itself.
    const each = source.kind === 'words' ? lists.flatMap((args) => args.map((arg) => [arg])) : lists
    return each.map((args) =>
      args.some(({ expands }) => expands) ? hole : args.map(({ value }) => value).join(' '),
    )
  }

  #set(name: string, source: Source): void {
    if (name === 'IFS') this.#isOpaque = true
    const sources = this.#sources.get(name) ?? []
    if (sources.length === 0) this.#sources.set(name, sources)
    // So many values are as good as any.
    if (sources.length <= maxSources)
      sources.push(sources.length < maxSources ? source : { kind: 'unknown' })
  }

  #visit = (node: SyntaxNode): void => {
    if (node.type === 'Function') this.functions.add(node.name.value)
    if (node.type === 'Command') this.#visitCommand(node)
    else if (node.type === 'For' || node.type === 'Select')
      for (const word of node.wordlist ?? [unknownWord])
        this.#set(node.name.value, wordSource(word, 'words'))
    else if (node.type === 'ArithmeticWord') this.#numbers(node.value)
    else if (node.type === 'ParameterExpansion' && node.operation?.operator.endsWith('='))
      if (node.operation.type === 'Default')
        this.#set(node.parameter, wordSource(node.operation.operand))
    if (
      node.type === 'ArithmeticBinary' &&
      node.operator.endsWith('=') &&
      node.left.type === 'ArithmeticWord'
    )
      this.#set(node.left.value, { kind: 'number' })
    if (
      node.type === 'ArithmeticUnary' &&
      /^(?:\+\+|--)$/.test(node.operator) &&
      node.operand.type === 'ArithmeticWord'
    )
      this.#set(node.operand.value, { kind: 'number' })
    forEachChild(node, this.#visit)
  }

  #numbers(text: string): void {
    for (const [, name = ''] of text.matchAll(/\b([A-Za-z_]\w*)[ \t]*(?:=(?!=)|\+\+|--)/g))
      this.#set(name, { kind: 'number' })
  }

  #visitCommand(node: Extract<SyntaxNode, { type: 'Command' }>): void {
    const name = node.name?.value ?? ''
    const assignments = [...node.prefix, ...node.suffix].filter(
      (part) => part.type === 'Assignment',
    )
    // `IFS= read` splits for this one command only.
    for (const assignment of assignments)
      if (!(assignment.name === 'IFS' && /^(?:read|mapfile)$/.test(name))) this.#assign(assignment)
    const words = node.args.filter((arg): arg is Word => arg.type === 'Word')
    if (
      /^(?:eval|source|\.|trap|command|builtin|enable|alias|shopt)$/.test(name) &&
      !isQuery(name, words)
    )
      this.#isOpaque = true
    if (/^(?:cd|pushd|popd)$/.test(name)) this.#moves = true
    if (node.name && node.name.parts !== undefined && /[$`]/.test(node.name.text))
      this.#isOpaque = true
    if (setters.test(name)) this.#setNames(name, words)
  }

  #assign({ name, value, append, index }: Assignment): void {
    if (append || index) return this.#set(name, { kind: 'unknown' })
    const words = value.type === 'Word' ? [value] : value.elements
    // `([0]=x)`
    if (value.type !== 'Word' && words.some(({ text }) => text.startsWith('[')))
      return this.#set(name, { kind: 'unknown' })
    for (const word of words) this.#set(name, wordSource(word))
    if (words.length === 0) this.#set(name, { kind: 'number' })
  }

  #setNames(command: string, words: readonly Word[]): void {
    const values = words.map(({ value }) => value)
    if (command === 'printf') {
      if (values[0]?.startsWith('-v')) this.#unknown(values[0].slice(2) || (values[1] ?? ''))
    } else if (words.some(({ text }) => /[$`]/.test(text))) {
      this.#isOpaque = true
    } else if (command === 'let') {
      for (const value of values) this.#numbers(value)
    } else if (declares.test(command)) {
      // One name stands for another.
      this.#isOpaque ||= values.some((value) => /^-[a-zA-Z]*n/.test(value))
      // With quotes in the name it is an assignment all the same.
      for (const value of values) if (/^\w+\+?=/.test(value)) this.#unknown(value)
    } else for (const value of values) this.#unknown(value)
  }

  #unknown(text: string): void {
    const name = /^[A-Za-z_]\w*/.exec(text)?.[0]
    if (name) this.#set(name, { kind: 'unknown' })
  }
}

const maxSources = 16
const unknownWord: null = null
const setters =
  /^(?:read|mapfile|readarray|getopts|printf|let|unset|declare|typeset|local|export|readonly|wait)$/
const declares = /^(?:declare|typeset|local|export|readonly)$/
const isQuery = (name: string, words: readonly Word[]): boolean =>
  (name === 'command' && /^-[vV]$/.test(words[0]?.value ?? '')) ||
  (name === 'trap' && words.length === 0)
const wordSource = (word: Word | null, kind: 'word' | 'words' = 'word'): Source =>
  word ? { kind, word } : { kind: 'unknown' }
