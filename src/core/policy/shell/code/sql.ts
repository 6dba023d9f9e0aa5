import { ambiguous, destructive, type Finding } from '../words/finding.ts'

const drops = /\b(?:drop|truncate)\s{1,20}(?:table|database|schema|user|index|view)\b/i
const reads =
  /^(?:select|with|explain|show|describe|desc|values|table|pragma|begin|commit|rollback|use|set names)\b|^\.(?:tables|schema|databases|indexes|indices|mode|headers|width|help|quit|dbinfo|fullschema|timer)\b|^\\(?:d[tnvifus]?\+?|l|x|timing|conninfo|q)(?:\s|$)/i
const changes =
  /\b(?:insert|update|delete|create|alter|grant|copy|call|do|into|attach|vacuum|replace|merge|load_extension|readfile|writefile|edit|load_file|outfile|dumpfile|program|setval|nextval|set_config|query_to_xml\w{0,20}|cursor_to_xml\w{0,20}|database_to_xml\w{0,20}|pg_\w+|lo_\w+|dblink\w*|xp_\w+|fts3_tokenizer|sys_\w+)\b/i
/** With `=` or brackets most others are set. */
const shownPragmas =
  /^pragma\s{1,20}(?:\w{1,30}\.)?(?:\w{1,40}$|(?:table_x?info|index_(?:list|x?info)|foreign_key_(?:list|check)|integrity_check|quick_check)\s{0,4}\([^()]*\)$)/i

/** Only what reads is clear: clients have commands of their own, and databases functions that reach files and hosts. */
export function sqlFindings(text: string): Finding[] {
  const code = withoutTexts(text)
  if (code === null)
    return [
      ...(drops.test(text) ? [destructive('Drops data')] : []),
      ambiguous('It cannot be told what is a text in the SQL'),
    ]
  const statements = code
    .split(/;|\n(?=\s{0,20}[.\\])/)
    .map((statement) => statement.replace(/\s{0,20}\\(?:G|g|gx)\s{0,20}$/, '').trim())
    .filter((statement) => statement !== '')
  const findings: Finding[] = []
  if (statements.some((statement) => drops.test(statement) || deletesAll(statement)))
    findings.push(destructive('Drops data'))
  const clear = statements.every(
    (statement) =>
      reads.test(statement) &&
      !changes.test(statement) &&
      // A command of the client, which may stand behind a statement; of those a shell runs what is in backticks.
      !statement.slice(1).includes('\\') &&
      !/^\\[^`]*`/.test(statement) &&
      (!/^pragma\b/i.test(statement) || shownPragmas.test(statement)),
  )
  return clear ? findings : [...findings, ambiguous('It does more than read the database')]
}

/** `delete from x` without a condition. */
const deletesAll = (statement: string): boolean =>
  /^delete\s{1,20}from\b/i.test(statement) && !/\bwhere\b/i.test(statement)

/**
 * Texts and comments are left out. null: databases do not agree on where one of them ends, or it does not end: then one
 * takes code for text. Reads each character once.
 */
function withoutTexts(text: string): string | null {
  let code = ''
  const lastQuote = Math.max(...Array.from(`'"\``, (quote) => text.lastIndexOf(quote)))
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at] ?? ''
    if (char === "'") {
      const end = text.indexOf("'", at + 1)
      // In some, a backslash before the quote lets it go on.
      if (end < 0 || text[end - 1] === '\\') return null
      code += "''"
      at = end
    } else if (char === '"' || char === '`') {
      const end = text.indexOf(char, at + 1)
      const name = text.slice(at, end + 1)
      if (end < 0 || /['\\\n]/.test(name)) return null
      code += name
      at = end
    } else if (text.startsWith('--', at) || text.startsWith('/*', at)) {
      const closing = char === '-' ? '\n' : '*/'
      const end = text.indexOf(closing, at + 2)
      const comment = text.slice(at, end < 0 ? text.length : end)
      // MySQL runs what stands in `/*! … */`, and takes `--x` for two signs.
      if (/['"`]|^\/\*[!+]|^--[^\s-]/.test(comment) || (end < 0 && char === '/')) return null
      code += ' '
      at = end < 0 ? text.length : end + (char === '-' ? -1 : 1)
    } else if (/[[#]/.test(char) && at < lastQuote) return null // A name in brackets, or a comment, to some: a text could begin or end in it.
    else if (char === '$' && /^\$\w{0,40}\$/.test(text.slice(at, at + 42))) return null
    else code += char
  }
  return code
}
