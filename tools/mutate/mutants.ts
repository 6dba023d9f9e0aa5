import { parseAst } from 'rolldown/parseAst'
import {
  childrenOf,
  hasOptional,
  isLogical,
  isText,
  isType,
  nextOfSpine,
  type Node,
} from './nodes.ts'
import { isSql, sqlEdits } from './sql.ts'

/** One change of one place of a file. */
export interface Mutant {
  id: number
  file: string
  line: number
  /** The line as it is, by which an accepted mutant is found again. */
  code: string
  /** Of equal ones in one line, the first is 0. */
  nth: number
  /** The operator that made it. */
  operator: string
  /** What is shown: the piece that changes, before and after. */
  was: string
  now: string
  start: number
  end: number
  /** Stands for the whole range; null: the statement is left out. */
  text: string | null
  /** What stands for a statement that is left out. */
  instead?: string
}

/** What of the surrounding code decides how a node may be changed. */
interface Place {
  parent: Node | null
  /** `if (x)`: both true and false are tried, so nothing else turns it round. */
  isTest: boolean
  /** A part of `a?.b.c` cannot stand in brackets of its own. */
  isChain: boolean
}

/** `onlyCall` says whether the product calls the function of that name at one place alone. */
export function mutantsOf(
  file: string,
  source: string,
  onlyCall: (name: string) => boolean,
): Mutant[] {
  const found: Mutant[] = []
  const lineStarts = [0, ...[...source.matchAll(/\n/g)].map(({ index }) => index + 1)]
  const add = (
    operator: string,
    start: number,
    end: number,
    text: string | null,
    shown?: { at: number; was: string; now: string },
  ) => {
    const at = shown?.at ?? start
    const line = lineStarts.findLastIndex((lineStart) => lineStart <= at) + 1
    const code = source
      .slice(lineStarts[line - 1], (lineStarts[line] ?? source.length + 1) - 1)
      .trim()
    const was = brief(shown?.was ?? source.slice(start, end))
    const now = brief(shown?.now ?? text ?? '')
    if (
      was === now ||
      found.some((other) => other.start === start && other.end === end && other.text === text)
    )
      return
    const nth = found.filter(
      (one) => one.line === line && one.was === was && one.now === now,
    ).length
    found.push({ id: 0, nth, file, line, code, operator, was, now, start, end, text })
  }
  new Walk(source, add, onlyCall).visit(parseAst(source, { lang: 'ts' }) as unknown as Node, {
    parent: null,
    isTest: false,
    isChain: false,
  })
  return found.sort((a, b) => a.start - b.start || b.end - a.end)
}

const brief = (text: string) => {
  const flat = text.replace(/\s+/g, ' ').trim()
  return flat.length > 80 ? `${flat.slice(0, 77)}...` : flat
}

const borders: Record<string, string> = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' }
const opposites: Record<string, string> = {
  '===': '!==',
  '!==': '===',
  '==': '!=',
  '!=': '==',
  '<': '>=',
  '>=': '<',
  '>': '<=',
  '<=': '>',
}
const arithmetic: Record<string, string> = {
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '&': '|',
  '|': '&',
  '<<': '>>',
  '>>': '<<',
}
const assignments: Record<string, string> = {
  '+=': '-=',
  '-=': '+=',
  '*=': '/=',
  '??=': '=',
  '||=': '=',
  '&&=': '=',
}
/** A map: a name may be that of any method of any object. */
const twins = new Map([
  ['some', 'every'],
  ['every', 'some'],
  ['min', 'max'],
  ['max', 'min'],
  ['startsWith', 'endsWith'],
  ['endsWith', 'startsWith'],
  ['findLast', 'find'],
])
const droppable = new Set([
  'filter',
  'slice',
  'trim',
  'toLowerCase',
  'toUpperCase',
  'sort',
  'toSorted',
  'reverse',
  'toReversed',
  'normalize',
  'replaceAll',
  'replace',
])

type Add = (
  operator: string,
  start: number,
  end: number,
  text: string | null,
  shown?: { at: number; was: string; now: string },
) => void

class Walk {
  readonly #source: string
  readonly #add: Add
  readonly #onlyCall: (name: string) => boolean

  constructor(source: string, add: Add, onlyCall: (name: string) => boolean) {
    this.#source = source
    this.#add = add
    this.#onlyCall = onlyCall
  }

  visit(node: Node, place: Place): void {
    if (isType(node)) return
    const canChange = !place.isChain || !hasOptional(node)
    if (isForTests(this.#text(node), node)) return
    if (canChange) this.#change(node, place)
    for (const [key, child] of childrenOf(node))
      this.visit(child, this.#placeOf(node, key, child, place))
  }

  #placeOf(parent: Node, key: string, child: Node, outer: Place): Place {
    const isLogical =
      parent.type === 'LogicalExpression' ||
      (parent.type === 'UnaryExpression' && parent['operator'] === '!')
    const isTest = key === 'test' || (isLogical && outer.isTest && parent['operator'] !== '??')
    const isSpine =
      key === 'object' ||
      key === 'callee' ||
      parent.type === 'TSNonNullExpression' ||
      parent.type === 'ChainExpression'
    const isChain = parent.type === 'ChainExpression' || (outer.isChain && isSpine)
    void child
    return { parent, isTest, isChain }
  }

  #text(node: Node): string {
    return this.#source.slice(node.start, node.end)
  }

  /** `now` stands for the whole node. */
  #replace(operator: string, node: Node, now: string): void {
    this.#add(operator, node.start, node.end, now)
  }

  #change(node: Node, place: Place): void {
    const { parent } = place
    if (place.isTest && parent && !isLogical(parent)) this.#test(node, parent)
    switch (node.type) {
      case 'LogicalExpression':
        return this.#logical(node)
      case 'BinaryExpression':
        return this.#binary(node, place)
      case 'UnaryExpression':
        if (node['operator'] === '!' && !place.isTest)
          this.#replace('negation', node, this.#text(node['argument'] as Node))
        if (node['operator'] === '-')
          this.#replace('arithmetic', node, this.#text(node['argument'] as Node))
        return
      case 'UpdateExpression':
        return this.#replace(
          'arithmetic',
          node,
          this.#swap(node, node['operator'] === '++' ? '--' : '++', String(node['operator'])),
        )
      case 'AssignmentExpression':
        return this.#assignment(node)
      case 'Literal':
        return this.#literal(node, place)
      case 'TemplateLiteral':
        return this.#template(node, place)
      case 'ArrayExpression':
        if ((node['elements'] as unknown[]).length > 0) this.#replace('emptied', node, '[]')
        return
      case 'ObjectExpression':
        if ((node['properties'] as unknown[]).length > 0 && parent?.type !== 'ReturnStatement')
          this.#replace('emptied', node, '{}')
        return
      case 'ExpressionStatement':
        return this.#statement(node)
      case 'ReturnStatement':
        return this.#return(node)
      case 'ChainExpression':
        return this.#chain(node)
      case 'CallExpression':
        return this.#call(node, place)
    }
  }

  #test(node: Node, parent: Node): void {
    if (parent.type === 'SwitchCase' || node.type === 'Literal') return
    // A loop that does not end shows nothing.
    if (/^(While|DoWhile|For)/.test(parent.type)) return this.#replace('condition', node, 'false')
    this.#replace('condition', node, 'true')
    this.#replace('condition', node, 'false')
  }

  #logical(node: Node): void {
    this.#replace('logic', node, this.#text(node['left'] as Node))
    this.#replace('logic', node, this.#text(node['right'] as Node))
  }

  #binary(node: Node, { isTest }: Place): void {
    const operator = String(node['operator'])
    const [left, right] = [node['left'] as Node, node['right'] as Node]
    // With whatever brackets stand between the operands.
    const between = this.#source.slice(left.end, right.start)
    const change = (kind: string, now: string | undefined) => {
      if (now === undefined) return
      const text = between.replace(operator, () => now)
      const [before, after] = [
        this.#source.slice(node.start, left.end),
        this.#source.slice(right.start, node.end),
      ]
      this.#replace(kind, node, before + text + after)
    }
    change('border', borders[operator])
    if (!isTest) change('comparison', opposites[operator])
    if (operator !== '+' || !(isText(left) || isText(right)))
      change('arithmetic', arithmetic[operator])
  }

  /** The same with another operator, which is the first of its kind after the first operand. */
  #swap(node: Node, now: string, was: string): string {
    return this.#text(node).replace(was, () => now)
  }

  #assignment(node: Node): void {
    const now = assignments[String(node['operator'])]
    if (now === undefined) return
    const right = node['right'] as Node
    if (isText(right)) return
    this.#replace(
      'assignment',
      node,
      `${this.#text(node['left'] as Node)} ${now} ${this.#text(right)}`,
    )
  }

  #literal(node: Node, { parent }: Place): void {
    const { value } = node
    if (typeof value === 'boolean') return this.#replace('boolean', node, String(!value))
    if (node['regex']) return this.#replace('pattern', node, '/(?!)/')
    if (
      typeof value !== 'string' ||
      parent?.type.startsWith('Import') ||
      parent?.type.startsWith('Export')
    )
      return
    if (isSql(value)) return this.#sql(node)
    if (isForPeople(value)) return
    this.#replace('string', node, value === '' ? `'mutant'` : `''`)
  }

  #template(node: Node, { parent }: Place): void {
    const text = this.#text(node).slice(1, -1)
    if (isSql(text)) return this.#sql(node)
    if (parent?.type === 'TaggedTemplateExpression' || text === '') return
    if (isForPeople(text.replace(/\$\{[^}]*\}/g, ''))) return
    this.#replace('string', node, `''`)
  }

  #sql(node: Node): void {
    const text = this.#text(node)
    for (const { at, was, now } of sqlEdits(text.slice(1, -1))) {
      const edited = text.slice(0, at + 1) + now + text.slice(at + 1 + was.length)
      this.#add('sql', node.start, node.end, edited, { at: node.start + 1 + at, was, now })
    }
  }

  #statement(node: Node): void {
    const inner = node['expression'] as Node
    const isSuper = inner.type === 'CallExpression' && (inner['callee'] as Node).type === 'Super'
    if (node['directive'] || isSuper) return
    this.#add('statement', node.start, node.end, null)
  }

  #return(node: Node): void {
    const value = node['argument'] as Node | null
    if (!value || value.type === 'Literal' || this.#text(value) === 'undefined') return
    this.#replace('return', value, 'undefined')
  }

  #chain(node: Node): void {
    for (let part = node['expression'] as Node | undefined; part; part = nextOfSpine(part)) {
      if (part['optional'] !== true) continue
      const before = nextOfSpine(part) as Node
      const rest = this.#source.slice(before.end, node.end)
      const now = rest.replace(
        /^(\s*)\?\.(\s*)([[(]?)/,
        (_, space: string, after: string, bracket: string) =>
          `${space}${bracket === '' ? '.' : ''}${after}${bracket}`,
      )
      this.#replace('chaining', node, this.#source.slice(node.start, before.end) + now)
    }
  }

  #call(node: Node, place: Place): void {
    const { parent } = place
    const callee = node['callee'] as Node
    const args = node['arguments'] as Node[]
    if (callee.type === 'MemberExpression' && callee['computed'] !== true)
      this.#method(node, callee, args)
    // Whether its value is used at all is another operator's business.
    if (
      callee.type !== 'Identifier' ||
      parent?.type === 'ExpressionStatement' ||
      parent?.type === 'AwaitExpression'
    )
      return
    if (place.isTest || !this.#onlyCall(String(callee['name']))) return
    this.#replace('wiring', node, 'undefined')
    const first = args.find((arg) => !/^(sql|now|this.*)$/.test(this.#text(arg)))
    if (first && first.type !== 'SpreadElement') this.#replace('wiring', node, this.#text(first))
  }

  #method(node: Node, callee: Node, args: Node[]): void {
    const property = callee['property'] as Node
    const name = String(property['name'])
    const twin = twins.get(name)
    const object = callee['object'] as Node
    if (twin !== undefined)
      this.#replace(
        'method',
        node,
        `${this.#source.slice(node.start, property.start)}${twin}${this.#source.slice(property.end, node.end)}`,
      )
    if (droppable.has(name) && object.type !== 'Super' && (args.length > 0 || name !== 'slice'))
      this.#replace('method', node, this.#text(object))
  }
}

/** Crash points do nothing but in tests that crash, and those count how often each was met. */
const isForTests = (text: string, { type }: Node) =>
  /^(Expression|Call|Await)/.test(type) && /^(await )?[\w.#]*\bcrash(Point)?\(/.test(text)

/** Texts with a blank are read by people: tests that repeat their words would be noise. */
const isForPeople = (text: string) => /\s/.test(text.trim())
