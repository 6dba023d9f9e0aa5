import { forEachChild, type HereDoc, parse, type Statement, type SyntaxNode } from 'unbash'

const maxLength = 64 * 1024
/** The parser's time grows with the number of openings times the length; this much takes it a few milliseconds. */
const maxCost = 1_000_000

export interface Script {
  statements: readonly Statement[]
  /** Of here-documents, by position: those that were taken out before parsing. */
  bodies: ReadonlyMap<number, string>
}

/** Spaces that are none, invisible characters, characters that turn the direction of writing. */
const strange = /(?![ \t\n])[\p{Cc}\p{Cf}\p{Z}\p{Cs}\u2800\u3164\u115f\u1160\uffa0]/u

export const isStrange = (text: string): boolean => /[^\t\n -~]/.test(text) && strange.test(text)

/** null: it cannot be told what a shell would make of it. */
export function parseShellScript(text: string): Script | null {
  if (text.length > maxLength || isStrange(text)) return null
  if (costOf(text) <= maxCost) return parsed(text, new Map())
  const taken = takeBodies(text)
  if (taken === null || costOf(taken.text) > maxCost) return null
  return parsed(taken.text, taken.bodies)
}

function costOf(text: string): number {
  let openings = 0
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    // ( and ` and <<, then { and [, which cost the parser more
    if (code === 40 || code === 96) openings += 1
    else if (code === 60 && text.charCodeAt(index + 1) === 60) openings += 1
    else if (code === 123) openings += 2
    else if (code === 91) openings += 8
  }
  return openings * text.length
}

function parsed(text: string, bodies: ReadonlyMap<number, string>): Script | null {
  try {
    const script = parse(text)
    if (script.errors?.length) return null
    return hasDocuments(script, bodies) ? { statements: script.commands, bodies } : null
  } catch {
    // Nested deeper than the stack.
    return null
  }
}

/** The parser must see a here-document wherever one was taken out; otherwise it was text in quotes. */
function hasDocuments(script: SyntaxNode, bodies: ReadonlyMap<number, string>): boolean {
  if (bodies.size === 0) return true
  const found = new Set<number>()
  const visit = (node: SyntaxNode): void => {
    // Text between escaped backticks counts its positions from its own beginning.
    if (node.type === 'Script' && node.source !== undefined) return
    if (node.type === 'HereDoc') found.add(operatorAt(node))
    forEachChild(node, visit)
  }
  visit(script)
  return [...bodies.keys()].every((position) => found.has(position))
}

/** Where its "<<" is: a descriptor number may stand before it. */
export const operatorAt = ({ pos, descriptor }: HereDoc): number => descriptor?.end ?? pos

const opening = /(?<!<)<<(-?)(?!<)[ \t]*(?:'([^'\n]+)'|"([^"\n$`\\]+)"|(\\?)([A-Za-z_]\w*))/g

/** Files that are written by here-documents can be long, and nothing in them is run unless they are fed to a shell. */
function takeBodies(text: string): { text: string; bodies: Map<number, string> } | null {
  const lines = text.split('\n')
  const bodies = new Map<number, string>()
  const kept: string[] = []
  let length = 0
  const keep = (line: string) => {
    kept.push(line)
    length += line.length + 1
  }
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index] ?? ''
    const start = length
    keep(line)
    for (const found of line.matchAll(opening)) {
      const end = endOf(lines, index + 1, found)
      if (end < 0) return null
      const body = lines.slice(index + 1, end)
      const literal = found[5] === undefined || found[4] === '\\' || !/[$`\\]/.test(body.join('\n'))
      if (literal) bodies.set(start + found.index, body.map((part) => `${part}\n`).join(''))
      else body.forEach(keep)
      keep(lines[end] ?? '')
      index = end
    }
  }
  return { text: kept.join('\n'), bodies }
}

function endOf(lines: readonly string[], from: number, found: RegExpMatchArray): number {
  const delimiter = found[2] ?? found[3] ?? found[5] ?? ''
  const dash = found[1] === '-'
  for (let index = from; index < lines.length; index += 1) {
    const line = lines[index] ?? ''
    if ((dash ? line.replace(/^\t+/, '') : line) === delimiter) return index
  }
  return -1
}
