import { patternEnd } from './pattern.ts'

/**
 * Whether an awk program only reads its input and prints. Commands, files that it opens itself, the environment and its own
 * list of files make it unclear. Reads each character once.
 */
export function isClearAwk(program: string): boolean {
  // Not every awk reads brackets in a pattern as brackets.
  return [true, false].every((readsBrackets) => isClear(withoutTexts(program, readsBrackets)))
}

function isClear(code: string | null): boolean {
  if (
    code === null ||
    /@|\b(?:system|getline|ENVIRON|ARGV|ARGC|PROCINFO|SYMTAB|FUNCTAB|extension)\b/.test(code)
  )
    return false
  if (/\|/.test(code.replaceAll('||', '  '))) return false
  return code.split(/[;{}\n]/).every((statement) => !redirects(statement))
}

/** `print x > "file"`; in brackets it compares. */
function redirects(statement: string): boolean {
  const at = statement.search(/\bprintf?\b/)
  let depth = 0
  for (const char of at < 0 ? '' : statement.slice(at)) {
    if (char === '(') depth += 1
    if (char === ')') depth -= 1
    if (char === '>' && depth <= 0) return true
  }
  return false
}

/** With strings and patterns blanked; null: it cannot be told where one of them begins or ends. */
function withoutTexts(program: string, readsBrackets: boolean): string | null {
  let code = ''
  const reader = new Before()
  for (let at = 0; at < program.length; at += 1) {
    const char = program[at] ?? ''
    // A line that goes on: what stands before a slash is then in the line before.
    if (char === '\\') return null
    if (char === '#') {
      while (at < program.length && program[at] !== '\n') at += 1
      code += '\n'
      reader.add('\n')
      continue
    }
    const slash = char === '/' ? reader.slash() : 'divides'
    if (slash === 'unclear') return null
    if (char === '"' || slash === 'begins') {
      const end =
        char === '"' ? stringEnd(program, at) : patternEnd(program, at + 1, char, readsBrackets)
      if (end < 0) return null
      code += '""'
      reader.add('"')
      at = end
      continue
    }
    code += char
    reader.add(char)
  }
  return code
}

const keywords =
  /^(?:print|printf|return|in|if|else|do|while|for|switch|case|exit|delete|getline|next|break|continue|BEGIN|END)$/
const conditions = /^(?:if|while|for|switch)$/

/** What stands before a slash says whether it divides or begins a pattern. Whoever takes one for the other reads texts as code. */
class Before {
  #last = ''
  #word = ''
  #isWordOver = true
  #doubled = false
  /** Of each open bracket, and of the last closed one: whether a condition stands in it. */
  readonly #open: boolean[] = []
  #closesCondition = false

  add(char: string): void {
    if (/[ \t]/.test(char)) {
      this.#isWordOver = true
      return
    }
    if (char === '(') this.#open.push(/\w/.test(this.#last) && conditions.test(this.#word))
    if (char === ')') this.#closesCondition = this.#open.pop() ?? false
    const isWord = /\w/.test(char)
    if (isWord) this.#word = this.#isWordOver ? char : this.#word + char
    this.#isWordOver = !isWord
    this.#doubled = /[+-]/.test(char) && this.#last === char
    this.#last = char
  }

  slash(): 'divides' | 'begins' | 'unclear' {
    if (this.#doubled || this.#last === '$') return 'unclear'
    if (this.#last === ')') return this.#closesCondition ? 'begins' : 'divides'
    if (/\w/.test(this.#last)) return keywords.test(this.#word) ? 'begins' : 'divides'
    return /[\]"]/.test(this.#last) ? 'divides' : 'begins'
  }
}

function stringEnd(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === '\n') return -1
    if (text[at] === '\\') at += 1
    else if (text[at] === '"') return at
  }
  return -1
}
