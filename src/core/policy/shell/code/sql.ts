import { ambiguous, destructive, type Finding } from '../words/finding.ts'

const drops = /\b(?:drop|truncate)\s{1,20}(?:table|database|schema|user|index|view)\b/i
const reads =
  /^(?:select|with|explain|show|describe|desc|values|table|pragma|begin|commit|rollback|use|set names)\b|^\.(?:tables|schema|databases|indexes|indices|mode|headers|width|help|quit|dbinfo|fullschema|timer)\b|^\\(?:d[tnvifus]?\+?|l|x|timing|conninfo|q)(?:\s|$)/i
const changes =
  /\b(?:insert|update|delete|create|alter|grant|copy|call|do|into|attach|vacuum|replace|merge|load_extension|readfile|writefile|edit|load_file|outfile|dumpfile|program|pg_\w+|lo_\w+|dblink\w*|xp_\w+|fts3_tokenizer|sys_\w+)\b/i

/** Only what reads is clear: clients have commands of their own, and databases functions that reach files and hosts. */
export function sqlFindings(text: string): Finding[] {
  const statements = withoutTexts(text)
    .split(/;|\n(?=\s{0,20}[.\\])/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
  const findings: Finding[] = []
  if (statements.some((statement) => drops.test(statement) || deletesAll(statement)))
    findings.push(destructive('Drops data'))
  const clear = statements.every(
    (statement) =>
      reads.test(statement) && !changes.test(statement) && !/^pragma\b[^;]*=/i.test(statement),
  )
  return clear ? findings : [...findings, ambiguous('It does more than read the database')]
}

/** `delete from x` without a condition. */
const deletesAll = (statement: string): boolean =>
  /^delete\s{1,20}from\b/i.test(statement) && !/\bwhere\b/i.test(statement)

function withoutTexts(text: string): string {
  const pieces = text.split("'")
  const even = pieces.filter((_, index) => index % 2 === 0).join("''")
  return even
    .split('\n')
    .map((line) => (line.includes('--') ? line.slice(0, line.indexOf('--')) : line))
    .join('\n')
}
