import type { AbilityInput, InputValues, StepStatus } from '../../contract/ability.ts'

/**
 * Conditions of steps: a small language, read here and nowhere else. What it does not know is refused when the ability is
 * read, and never counts as true.
 *
 *   or    = and { ("or" | "||") and }
 *   and   = not { ("and" | "&&") not }
 *   not   = ("not" | "!") not | "(" or ")" | compared
 *   compared = value [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "contains") value ]
 *   value = inputs.NAME | steps.ID.status | steps.ID.output | "text" | 'text' | number | true | false | null
 */
export type Condition =
  | { kind: 'or'; left: Condition; right: Condition }
  | { kind: 'and'; left: Condition; right: Condition }
  | { kind: 'not'; of: Condition }
  | { kind: 'compare'; operator: Operator; left: Operand; right: Operand }
  | { kind: 'true'; of: Operand }

type Operator = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'contains'
type Scalar = string | number | boolean | null
export type Operand =
  | { kind: 'literal'; value: Scalar }
  | { kind: 'input'; name: string; at: number }
  | { kind: 'status' | 'output'; step: string; at: number }

export type ReadCondition = { condition: Condition } | { problem: string }

interface Token {
  kind: 'name' | 'text' | 'number' | 'sign' | 'end'
  text: string
  at: number
}

const maxDepth = 50

/** What is wrong with a condition, and where. It never leaves this file: who reads a condition gets it as `problem`. */
class Mistake extends Error {}

const mistake = (message: string, at: number) =>
  new Mistake(`${message} at character ${at + 1} of the condition`)

export function readCondition(source: string): ReadCondition {
  try {
    return { condition: new Reader(tokensOf(source)).read() }
  } catch (error) {
    if (error instanceof Mistake) return { problem: error.message }
    throw error
  }
}

const tokenForm =
  /\s*(?:([A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*)|(-?[0-9]+(?:\.[0-9]+)?)|"([^"\\]*)"|'([^'\\]*)'|(==|!=|<=|>=|&&|\|\||[<>!()]))/y

function tokensOf(source: string): Token[] {
  const tokens: Token[] = []
  tokenForm.lastIndex = 0
  for (let from = 0; source.slice(from).trim() !== ''; from = tokenForm.lastIndex) {
    tokenForm.lastIndex = from
    const found = tokenForm.exec(source)
    if (found === null) {
      const at = from + (source.slice(from).length - source.slice(from).trimStart().length)
      throw mistake(`Cannot read "${source.slice(at, at + 10)}"`, at)
    }
    const [, name, number, double, single, sign] = found
    const at = tokenForm.lastIndex - found[0].trimStart().length
    if (name !== undefined) tokens.push({ kind: 'name', text: name, at })
    else if (number !== undefined) tokens.push({ kind: 'number', text: number, at })
    else if (sign !== undefined) tokens.push({ kind: 'sign', text: sign, at })
    else tokens.push({ kind: 'text', text: double ?? single ?? '', at })
  }
  return [...tokens, { kind: 'end', text: '', at: source.length }]
}

const words: Record<string, string> = { or: '||', and: '&&', not: '!' }
const operators: readonly string[] = ['==', '!=', '<', '<=', '>', '>=', 'contains']

/**
 * Reads one condition from left to right, by the grammar above. It promises to end, to nest no deeper than `maxDepth`, and
 * to throw a Mistake for whatever the grammar does not have.
 */
class Reader {
  readonly #tokens: readonly Token[]
  #next = 0

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens
  }

  read(): Condition {
    const condition = this.#joined('||', 0)
    const left = this.#peek()
    if (left.kind !== 'end') throw mistake(`Did not expect "${left.text}"`, left.at)
    return condition
  }

  #joined(sign: '||' | '&&', depth: number): Condition {
    if (depth > maxDepth) throw mistake('Nested too deeply', this.#peek().at)
    const part = () => (sign === '||' ? this.#joined('&&', depth) : this.#not(depth))
    let condition = part()
    while (this.#takes(sign)) {
      condition = { kind: sign === '||' ? 'or' : 'and', left: condition, right: part() }
    }
    return condition
  }

  #not(depth: number): Condition {
    if (depth > maxDepth) throw mistake('Nested too deeply', this.#peek().at)
    if (this.#takes('!')) return { kind: 'not', of: this.#not(depth + 1) }
    if (!this.#takes('(')) return this.#compared()
    const inner = this.#joined('||', depth + 1)
    if (!this.#takes(')')) throw mistake('Expected ")"', this.#peek().at)
    return inner
  }

  #compared(): Condition {
    const left = this.#value()
    const operator = this.#peek().text
    const isOperator = this.#peek().kind !== 'text' && operators.includes(operator)
    if (!isOperator) return { kind: 'true', of: left }
    this.#next += 1
    return { kind: 'compare', operator: operator as Operator, left, right: this.#value() }
  }

  #value(): Operand {
    const token = this.#peek()
    this.#next += 1
    if (token.kind === 'text') return { kind: 'literal', value: token.text }
    if (token.kind === 'number') return { kind: 'literal', value: Number(token.text) }
    if (token.kind === 'name') return nameOf(token)
    throw mistake(
      token.kind === 'end' ? 'Expected a value' : `Did not expect "${token.text}"`,
      token.at,
    )
  }

  #peek(): Token {
    return this.#tokens[this.#next] ?? { kind: 'end', text: '', at: 0 }
  }

  #takes(sign: string): boolean {
    const { kind, text } = this.#peek()
    const is = (kind === 'sign' && text === sign) || (kind === 'name' && words[text] === sign)
    if (is) this.#next += 1
    return is
  }
}

const constants: Record<string, Scalar> = { true: true, false: false, null: null }

function nameOf({ text, at }: Token): Operand {
  if (Object.hasOwn(constants, text)) return { kind: 'literal', value: constants[text] ?? null }
  const [first, second, third, ...more] = text.split('.')
  if (first === 'inputs' && second !== undefined && third === undefined)
    return { kind: 'input', name: second, at }
  if (first === 'steps' && second !== undefined && more.length === 0)
    if (third === 'status' || third === 'output') return { kind: third, step: second, at }
  throw mistake(
    `Cannot read "${text}": expected inputs.NAME, steps.ID.status, steps.ID.output, a text in quotes, a number, true, false or null`,
    at,
  )
}

/** What a condition may speak of, where it stands. */
export interface Surroundings {
  inputs: Readonly<Record<string, Pick<AbilityInput, 'type'>>>
  /** The steps that have ended by then. */
  before: ReadonlySet<string>
  steps: ReadonlySet<string>
}

/** What would never hold, or would hold by accident, is refused: names, types, statuses that do not exist. */
export function checkCondition(condition: Condition, known: Surroundings): string[] {
  if (condition.kind === 'or' || condition.kind === 'and')
    return [...checkCondition(condition.left, known), ...checkCondition(condition.right, known)]
  if (condition.kind === 'not') return checkCondition(condition.of, known)
  if (condition.kind === 'compare') {
    const { left, right } = condition
    return [...checkName(left, known), ...checkName(right, known), ...checkTypes(condition, known)]
  }
  const isBoolean = typeOf(condition.of, known) === 'boolean'
  return [
    ...checkName(condition.of, known),
    ...(isBoolean ? [] : ['Expected a comparison, or an input that is true or false']),
  ]
}

function checkName(operand: Operand, { inputs, before, steps }: Surroundings): string[] {
  if (operand.kind === 'literal') return []
  if (operand.kind === 'input')
    return Object.hasOwn(inputs, operand.name) ? [] : [`There is no input "${operand.name}"`]
  if (!steps.has(operand.step)) return [`There is no step "${operand.step}"`]
  return before.has(operand.step)
    ? []
    : [`Step "${operand.step}" may not have ended by then: add it to needs`]
}

type ValueType = 'string' | 'number' | 'boolean' | 'null' | 'other'

function typeOf(operand: Operand, { inputs }: Surroundings): ValueType {
  if (operand.kind === 'literal')
    return operand.value === null ? 'null' : (typeof operand.value as ValueType)
  if (operand.kind !== 'input') return 'string'
  const type = inputs[operand.name]?.type ?? 'string'
  return type === 'array' || type === 'object' ? 'other' : type
}

const statuses: readonly unknown[] = ['completed', 'failed', 'skipped'] satisfies StepStatus[]

function checkTypes(
  { operator, left, right }: Extract<Condition, { kind: 'compare' }>,
  known: Surroundings,
): string[] {
  const types = [typeOf(left, known), typeOf(right, known)]
  const status = [left, right].find(({ kind }) => kind === 'status')
  const literal = [left, right].find((operand) => operand.kind === 'literal')
  if (status && literal?.kind === 'literal' && !statuses.includes(literal.value))
    return [`A status is completed, failed or skipped, never "${literal.value}"`]
  if (operator === 'contains')
    return types.every((type) => type === 'string') ? [] : ['"contains" compares texts']
  if (operator !== '==' && operator !== '!=')
    return types.every((type) => type === 'number') ? [] : [`"${operator}" compares numbers`]
  if (types.includes('other')) return ['Lists and objects cannot be compared']
  return types[0] === types[1] || types.includes('null')
    ? []
    : [`Compares ${types[0]} with ${types[1]}, which are never equal`]
}

/** What is known when the condition is asked. */
export interface Known {
  inputs: InputValues
  steps: Readonly<Record<string, { status: StepStatus; output: string }>>
}

export function conditionHolds(condition: Condition, known: Known): boolean {
  if (condition.kind === 'or')
    return conditionHolds(condition.left, known) || conditionHolds(condition.right, known)
  if (condition.kind === 'and')
    return conditionHolds(condition.left, known) && conditionHolds(condition.right, known)
  if (condition.kind === 'not') return !conditionHolds(condition.of, known)
  if (condition.kind === 'true') return valueOf(condition.of, known) === true
  const { operator, left, right } = condition
  return compares(operator, valueOf(left, known), valueOf(right, known))
}

function valueOf(operand: Operand, { inputs, steps }: Known): unknown {
  if (operand.kind === 'literal') return operand.value
  if (operand.kind === 'input')
    return Object.hasOwn(inputs, operand.name) ? (inputs[operand.name] ?? null) : null
  const step = Object.hasOwn(steps, operand.step) ? steps[operand.step] : undefined
  return step === undefined ? null : operand.kind === 'status' ? step.status : step.output.trim()
}

function compares(operator: Operator, left: unknown, right: unknown): boolean {
  if (operator === '==') return left === right
  if (operator === '!=') return left !== right
  if (operator === 'contains')
    return typeof left === 'string' && typeof right === 'string' && left.includes(right)
  if (typeof left !== 'number' || typeof right !== 'number') return false
  if (operator === '<') return left < right
  if (operator === '<=') return left <= right
  return operator === '>' ? left > right : left >= right
}
