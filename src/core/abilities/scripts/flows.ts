import {
  type Assignment,
  type Command,
  type CommandNode,
  forEachChild,
  type ParsedScript,
  type Pipeline,
  type Statement,
  type SyntaxNode,
  type Word,
} from 'unbash'
import { isShell } from '../../policy/shell/programs/shells.ts'
import { parseShellScript } from '../../policy/shell/words/parse.ts'
import { isCodeVariable } from './commands.ts'
import { namesInNumber, printsNumber, isDigitsOnly, numberParameter } from './numbers.ts'

/** How a variable is read where more than its text counts: bash runs code that it finds in a number. */
export type Reading = 'number' | 'code'

type Nodes = readonly SyntaxNode[]
/** The variables and positional parameters of a place, and where what it reads comes from. */
interface Around {
  scope: string
  input: ReadonlySet<string>
}

/**
 * Where the values of a script go by way of its variables: assignments, loops, `read`, arguments of its functions. It
 * promises to name a variable that a value may come to and that is read as a number or as code anywhere in the script;
 * the order of statements and what is checked before are not looked at. `slots.ts` asks it for each value.
 */
export class ScriptFlows {
  /** From a source to the names that it comes to. `@f`: arguments of f; `<f`, `>f`: what it reads and prints. */
  readonly #flows = new Map<string, Set<string>>()
  readonly #read = new Map<string, Reading>()
  readonly #functions = new Set<string>()
  /** Those that the script writes: `./f` is a name here, too. */
  readonly #files = new Set<string>()
  /** Their index is a text. */
  readonly #byText = new Set<string>()
  readonly #marks: readonly string[]
  readonly #dataIn: (statements: readonly Statement[]) => ReadonlySet<SyntaxNode>
  #data: ReadonlySet<SyntaxNode>
  /** In an index that is a text. */
  readonly #inTexts = new Set<SyntaxNode>()
  #scripts = 0
  readonly #known = new WeakMap<SyntaxNode, Set<string>>()
  readonly #mark: RegExp

  /** `dataIn` gives the expansions that stand where a value may stand. */
  constructor(
    statements: readonly Statement[],
    marks: readonly string[],
    dataIn: (statements: readonly Statement[]) => ReadonlySet<SyntaxNode>,
  ) {
    this.#marks = marks
    this.#mark = new RegExp(`${marks[0]?.slice(0, -2) ?? ''}\\d+z`, 'g')
    this.#dataIn = dataIn
    this.#data = dataIn(statements)
    for (const statement of statements) this.#declare(statement)
    for (const statement of statements) this.#walk(statement, { scope: '', input: new Set() })
  }

  /** The first variable that the source comes to and that is not read as a text alone. */
  readingOf(source: string): { name: string; reading: Reading } | null {
    const seen = new Set([source])
    for (const name of seen) {
      const reading = isCodeVariable(name) ? 'code' : this.#read.get(name)
      if (reading !== undefined && name !== '') return { name, reading }
      for (const next of this.#flows.get(name) ?? []) seen.add(next)
    }
    return null
  }

  #declare = (node: SyntaxNode): void => {
    if (node.type === 'Function') this.#functions.add(node.name.value)
    if (node.type === 'Command' && declares.test(node.name?.value ?? '')) {
      const values = wordsOf(node).map(({ value }) => value)
      const flags = values.filter((value) => value.startsWith('-')).join('')
      for (const part of node.suffix) {
        const name = part.type === 'Assignment' ? part.name : part.type === 'Word' ? part.value : ''
        if (flags.includes('A')) this.#byText.add(name)
        else if (/[in]/.test(flags)) this.#readAs('number', [name])
      }
    }
    if (node.type === 'Redirect' && node.operator.includes('>') && node.target)
      this.#files.add(fileOf(node.target))
    if (node.type === 'Command' && node.name?.value === 'tee')
      for (const word of wordsOf(node)) this.#files.add(fileOf(word))
    forEachChild(node, this.#declare)
  }

  #readAs(reading: Reading, names: Iterable<string>): void {
    for (const name of names) if (!this.#read.has(name)) this.#read.set(name, reading)
  }

  #flow(sources: Iterable<string>, target: string): void {
    for (const source of sources) {
      const targets = this.#flows.get(source) ?? new Set()
      this.#flows.set(source, targets.add(target))
    }
  }

  #walk(node: SyntaxNode, around: Around): void {
    switch (node.type) {
      case 'Function': {
        const { value: name } = node.name
        this.#flow(this.#sources([node.body], name), `>${name}`)
        return this.#walk(node.body, { scope: name, input: new Set([`<${name}`]) })
      }
      case 'Command':
        this.#command(node, around)
        break
      case 'Assignment':
        this.#assign(node, around)
        break
      case 'For':
      case 'Select':
        this.#flow(
          node.wordlist ? this.#sources(node.wordlist, around.scope) : [`@${around.scope}`],
          node.name.value,
        )
        break
      case 'Pipeline':
        return this.#pipeline(node, around)
      case 'Redirected':
        for (const redirect of node.redirects) {
          this.#walk(redirect, around)
          this.#write(redirect, [...around.input, ...this.#sources([node.command], around.scope)])
        }
        return this.#walk(node.command, {
          ...around,
          input: new Set([...around.input, ...this.#sources(node.redirects, around.scope)]),
        })
      case 'ArithmeticWord':
        this.#readAs('number', namesInNumber(node.value, around.scope))
        break
      case 'ArithmeticExpansion':
        if (node.expression === undefined)
          this.#readAs('number', namesInNumber(node.text, around.scope))
        break
      case 'TestBinary':
        if (/^-(?:eq|ne|lt|le|gt|ge)$/.test(node.operator))
          for (const { text } of [node.left, node.right])
            this.#readAs('number', namesInNumber(text, around.scope))
        break
      case 'SimpleExpansion':
      case 'ParameterExpansion':
        this.#expansion(node, around)
        break
      default:
    }
    forEachChild(node, (child) => this.#walk(child, around))
  }

  #pipeline({ commands }: Pipeline, around: Around): void {
    let { input } = around
    for (const command of commands) {
      this.#walk(command, { ...around, input })
      input = printsNumber(command)
        ? new Set()
        : new Set([...input, ...this.#sources([command], around.scope)])
    }
  }

  #expansion(
    node: Extract<SyntaxNode, { type: 'SimpleExpansion' | 'ParameterExpansion' }>,
    { scope }: Around,
  ): void {
    const name = numberParameter(node, scope)
    if (node.type === 'ParameterExpansion') {
      const { index, operation, prefix, parameter } = node
      const isList = index !== undefined && /^[@*]$/.test(index.value)
      if (index && this.#byText.has(parameter)) this.#isText(index)
      else if (index && !isList) this.#readAs('number', namesInNumber(index.text, scope))
      if (operation?.type === 'Slice')
        for (const part of [operation.offset, operation.length])
          this.#readAs('number', namesInNumber(part?.text ?? '', scope))
      const isNamed = prefix === '!' && !isList && operation?.type !== 'Names'
      const isPrompt = operation?.type === 'Transform' && operation.operand.value === 'P'
      if (name !== null && (isNamed || isPrompt || operation?.type === 'Unknown'))
        this.#readAs('code', [name])
      if (operation?.type === 'Default' && operation.operator.endsWith('='))
        this.#flow(this.#sources([operation.operand], scope), parameter)
    }
    if (name !== null && !this.#data.has(node) && !this.#inTexts.has(node))
      this.#readAs('code', [name])
  }

  #assign({ name, value, index }: Assignment, { scope }: Around): void {
    this.#flow(this.#sources([value], scope), name)
    // Arithmetic looks at the variable that a text names.
    if (value.type === 'Word' && /^\w+$/.test(value.text)) this.#flow([value.text], name)
    if (this.#byText.has(name)) {
      for (const part of [index, value]) if (part) this.#isText(part)
      return
    }
    this.#readAs('number', namesInNumber(index?.text ?? '', scope))
    for (const { text } of value.type === 'Word' ? [] : value.elements)
      this.#readAs('number', namesInNumber(/^\[([^\]]*)\]/.exec(text)?.[1] ?? '', scope))
  }

  #isText = (node: SyntaxNode): void => {
    if (node.type.endsWith('Expansion')) this.#inTexts.add(node)
    if (node.type !== 'CommandExpansion') forEachChild(node, this.#isText)
  }

  #command(node: Command, around: Around): void {
    const words = wordsOf(node)
    const values = words.map(({ value }) => value)
    const name = (node.name?.value ?? '').replace(/^.*\//, '')
    const names = values.filter((value) => /^[A-Za-z_]\w*$/.test(value))
    const given = this.#sources(words, around.scope)
    const input = [...around.input, ...this.#sources(node.redirects, around.scope)]
    for (const redirect of node.redirects) this.#write(redirect, [...given, ...input])
    if (name === 'tee') for (const word of words) this.#flow(input, fileOf(word))
    this.#readAs('code', this.#filesRun(node))
    if (name === 'let')
      for (const { text } of words) this.#readAs('number', namesInNumber(text, around.scope))
    if (/^(?:read|mapfile|readarray)$/.test(name))
      for (const target of [...names, name === 'read' ? 'REPLY' : 'MAPFILE'])
        this.#flow(input, target)
    if (name === 'getopts')
      for (const target of [...names, 'OPTARG']) this.#flow([`@${around.scope}`], target)
    if (name === 'printf' && values[0]?.startsWith('-v'))
      this.#flow(given, values[0]?.slice(2) || (values[1] ?? ''))
    if (name === 'set') this.#flow(given, `@${around.scope}`)
    if (this.#functions.has(name)) {
      this.#flow(given, `@${name}`)
      this.#flow(input, `<${name}`)
    }
    this.#inner(name, words, { ...around, input: new Set(input) })
  }

  #write(node: SyntaxNode, sources: readonly string[]): void {
    if (node.type === 'Redirect' && node.operator.includes('>') && node.target)
      this.#flow(sources, fileOf(node.target))
  }

  /** What it has written, and now runs: `bash f`, `source f`, `./f`. */
  #filesRun(node: Command): string[] {
    const isReader = /^(?:source|\.|(?:.*\/)?(?:ba|da|z|k)?sh)$/.test(node.name?.value ?? '')
    const words = [...(node.name ? [node.name] : []), ...(isReader ? wordsOf(node) : [])]
    return words.map(fileOf).filter((file) => this.#files.has(file))
  }

  /** A script that is written out: of `sh -c`, with arguments of its own, of `eval` and of `trap`. */
  #inner(name: string, words: readonly Word[], around: Around): void {
    const isOwn = /^(?:eval|trap)$/.test(name)
    const shell = isOwn ? -1 : words.findIndex(({ value }) => isShell(value.replace(/^.*\//, '')))
    if (!isOwn && !isShell(name) && shell < 0) return
    const args = isShell(name) || isOwn ? words : words.slice(shell + 1)
    const at = isOwn ? 0 : args.findIndex(({ value }) => /^-[a-zA-Z]*c$/.test(value)) + 1
    const code = args[at]
    if ((at === 0 && !isOwn) || code === undefined || !isLiteral(code)) return
    const script = parseShellScript(code.value)
    if (script === null) return
    const scope = isOwn ? around.scope : `script ${(this.#scripts += 1)}`
    if (!isOwn) this.#flow(this.#sources(args.slice(at + 1), around.scope), `@${scope}`)
    for (const statement of script.statements) this.#declare(statement)
    const outer = this.#data
    this.#data = this.#dataIn(script.statements)
    for (const statement of script.statements) this.#walk(statement, { ...around, scope })
    this.#data = outer
  }

  /** The values and variables that are in them, also by way of what their substitutions print. */
  #sources(nodes: Nodes, scope: string): Set<string> {
    const all = new Set<string>()
    for (const node of nodes) for (const source of this.#sourcesOf(node, scope)) all.add(source)
    return all
  }

  /** Each node is looked at once, however deep the script is. */
  #sourcesOf(node: SyntaxNode, scope: string): ReadonlySet<string> {
    const known = this.#known.get(node)
    if (known) return known
    const sources = new Set<string>()
    this.#known.set(node, sources)
    if (node.type === 'ArithmeticExpansion') return sources
    if (node.type === 'CommandExpansion' && node.script && isCounting(node.script)) return sources
    if (node.type === 'SimpleExpansion' || node.type === 'ParameterExpansion') {
      if (isDigitsOnly(node)) return sources
      const name = numberParameter(node, scope)
      if (name !== null) sources.add(name)
    }
    if (node.type === 'Word' && this.#files.has(fileOf(node))) sources.add(fileOf(node))
    if (node.type === 'Command' && this.#functions.has(node.name?.value ?? ''))
      sources.add(`>${node.name?.value}`)
    let isLeaf = true
    forEachChild(node, (child) => {
      isLeaf = false
      for (const source of this.#sourcesOf(child, scope)) sources.add(source)
    })
    if (isLeaf && 'text' in node && this.#marks.length > 0)
      for (const [mark] of node.text.matchAll(this.#mark)) sources.add(mark)
    return sources
  }
}

const fileOf = ({ value }: Word): string => `./${value.replace(/^(?:\.\/)+/, '')}`

const declares = /^(?:declare|typeset|local|readonly|export)$/

const wordsOf = ({ suffix }: Command): Word[] => suffix.filter((part) => part.type === 'Word')

const isLiteral = ({ parts }: Word): boolean =>
  (parts ?? []).every(
    (part) =>
      part.type === 'Literal' ||
      part.type === 'SingleQuoted' ||
      (part.type === 'DoubleQuoted' && part.parts.every(({ type }) => type === 'Literal')),
  )

/** One command, or the last of one pipeline, prints nothing but a number. */
function isCounting({ commands }: ParsedScript): boolean {
  const [only, more] = commands
  if (only === undefined || more !== undefined) return false
  const command = only.command as CommandNode | Pipeline
  return printsNumber(command.type === 'Pipeline' ? command.commands.at(-1) : command)
}
