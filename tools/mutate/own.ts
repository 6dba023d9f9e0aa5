import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAst } from 'rolldown/parseAst'
import type { Mutant } from './mutants.ts'
import { childrenOf, hasOptional, isType, type Node } from './nodes.ts'

/** A change that somebody has thought of: this text, which stands once in the file, becomes that. */
export interface OwnChange {
  file: string
  was: string
  now: string
}

/** Each as a mutant of the smallest expression or statement around its text. */
export function ownMutants(
  root: string,
  path: string,
): Map<string, { source: string; mutants: Mutant[] }> {
  const changes = JSON.parse(readFileSync(path, 'utf8')) as OwnChange[]
  let id = 0
  return new Map(
    [...Map.groupBy(changes, ({ file }) => file)].map(([file, own]) => {
      const source = readFileSync(join(root, file), 'utf8')
      const mutants = own.map((change) => ({ ...ownMutant(source, change), id: ++id }))
      return [file, { source, mutants }]
    }),
  )
}

export function ownMutant(source: string, { file, was, now }: OwnChange): Mutant {
  const at = source.indexOf(was)
  if (was === '' || at < 0) throw new Error(`Cannot find in ${file}: ${was}`)
  if (source.includes(was, at + 1)) throw new Error(`More than once in ${file}: ${was}`)
  const program = parseAst(source, { lang: 'ts' }) as unknown as Node
  const found = around(program, at, at + was.length)
  if (!found) throw new Error(`Neither an expression nor a statement in ${file}: ${was}`)
  const { start, end } = found
  const changed = source.slice(start, at) + now + source.slice(at + was.length, end)
  const before = source.slice(0, at)
  return {
    ...{ id: 0, nth: 0, file, operator: 'own', was: was.trim(), now: now.trim(), start, end },
    line: before.split('\n').length,
    code:
      source
        .slice(before.lastIndexOf('\n') + 1)
        .split('\n', 1)[0]
        ?.trim() ?? '',
    ...(isStatement(found) ? { text: null, instead: changed } : { text: changed }),
  }
}

const isStatement = ({ type }: Node) => type.endsWith('Statement')

/** What may stand in brackets: names may be keys or targets, and a part of `a?.b` may not. */
const isExpression = (node: Node) =>
  ['Literal', 'TemplateLiteral'].includes(node.type) ||
  (node.type.endsWith('Expression') &&
    !['FunctionExpression', 'ClassExpression'].includes(node.type))

function around(node: Node, start: number, end: number, isChain = false): Node | null {
  if (isType(node) || node.start > start || node.end < end) return null
  const inner = childrenOf(node)
    .map(([key, child]) => {
      const isSpine = ['object', 'callee'].includes(key) || child.type === 'TSNonNullExpression'
      return around(
        child,
        start,
        end,
        node.type === 'ChainExpression' || child['optional'] === true || (isChain && isSpine),
      )
    })
    .find((found) => found !== null)
  // In brackets at the begin of a line it would belong to the line before.
  if (inner && node.type === 'ExpressionStatement' && inner.start === node.start) return node
  if (inner) return inner
  const canStand = isStatement(node) || (isExpression(node) && !(isChain && hasOptional(node)))
  return canStand ? node : null
}
