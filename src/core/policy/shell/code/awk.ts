/**
 * Whether an awk program only reads its input and prints. Commands, files that it opens itself, the environment and its own
 * list of files make it unclear. Reads each character once.
 */
export function isClearAwk(program: string): boolean {
  const code = withoutTexts(program)
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

/** With strings and patterns blanked; null: one of them does not end. */
function withoutTexts(program: string): string | null {
  let code = ''
  let before = ''
  for (let at = 0; at < program.length; at += 1) {
    const char = program[at] ?? ''
    if (char === '#') {
      while (at < program.length && program[at] !== '\n') at += 1
      code += '\n'
      before = ''
      continue
    }
    // After a value it divides.
    const isPattern = char === '/' && !/[\w)\]$"]/.test(before)
    if (char === '"' || isPattern) {
      const end = endOf(program, at, char)
      if (end < 0) return null
      code += '""'
      before = '"'
      at = end
      continue
    }
    code += char
    if (!/[ \t]/.test(char)) before = char
  }
  return code
}

function endOf(text: string, from: number, closing: string): number {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === '\n') return -1
    if (text[at] === '\\') at += 1
    else if (text[at] === closing) return at
  }
  return -1
}
