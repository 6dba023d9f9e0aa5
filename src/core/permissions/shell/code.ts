import { ambiguous, destructive, type Finding } from './finding.ts'

/** What can be told of a program that is written inside a command. Code in files is not looked at. */
export interface CodeReport {
  findings: Finding[]
  /** Strings in it that look like paths outside. */
  paths: string[]
  /** It shows the environment. */
  secret: boolean
}

const starts =
  /\b(?:child_process|subprocess|execSync|execFile|spawnSync|shell_exec|passthru|proc_open|popen|Deno\.Command|Bun\.spawn|os\.(?:system|exec\w*|spawn\w*)|Kernel\.|IO\.popen)\b|\bqx\b|%x[{(]|\bsystem\s*\(?\s*["'(]|\bexec\s+["']/
const deletes = /\b(?:rmtree|rmSync|rimraf|rm_rf|remove_tree|removedirs|fs\.rm|FileUtils\.rm\w*)\b/
const connects =
  /\bfetch\s*\(|\b(?:urlopen|urllib|requests\.\w+|httpx|http\.client|https?\.(?:get|request)|net\.connect|socket\.\w+|LWP::|Net::HTTP)\b/
const environment =
  /process\.env\s*[),;\]}]|process\.env\s*$|os\.environ(?!\s*(?:\[|\.get|\.setdefault))|Object\.\w+\(process\.env|%ENV\b|ENV\.(?:to_h|each|inspect|map)|getenv\(\)/
const sql =
  /\b(?:drop|truncate)\s+(?:table|database|schema|user)\b|\bdelete\s+from\s+\S+\s*(?:;|$)/i
const quotedPath = /["'`]((?:\/|~\/|\.\.\/)[^"'`\s]*)["'`]/g

const languageOf = (program: string) =>
  program.endsWith('awk')
    ? 'awk'
    : program.endsWith('sed')
      ? 'sed'
      : /sql|maria/.test(program)
        ? 'sql'
        : 'code'

export function codeFindings(program: string, text: string): CodeReport {
  switch (languageOf(program)) {
    case 'sql':
      return {
        findings: sql.test(text) ? [destructive('Drops data')] : [],
        paths: [],
        secret: false,
      }
    case 'sed':
      return sedReport(text)
    case 'awk':
      return awkReport(text)
    default:
      return {
        findings: generalFindings(text),
        paths: pathsIn(text),
        secret: environment.test(text),
      }
  }
}

const pathsIn = (text: string): string[] =>
  [...text.matchAll(quotedPath)].map(([, path]) => path ?? '')

function generalFindings(text: string): Finding[] {
  const findings: Finding[] = []
  if (starts.test(text)) findings.push(ambiguous('The code starts programs'))
  if (deletes.test(text)) findings.push(ambiguous('The code deletes files'))
  if (connects.test(text)) findings.push(ambiguous('The code uses the network'))
  return findings
}

function awkReport(text: string): CodeReport {
  const plain = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""')
  const runs = /\bsystem\s*\(|\|&?\s*(?:""|getline)/.test(plain)
  const findings = runs ? [ambiguous('awk runs a command')] : []
  return { findings, paths: pathsIn(text), secret: /\bENVIRON\b(?!\s*\[)/.test(plain) }
}

/** GNU sed's `e` (run), `w` and `W` (write), as commands or as flags of `s`. */
function sedReport(text: string): CodeReport {
  const runs =
    /(?:^|[;{}\n\d$/])[ \t]{0,4}[ewW](?:[ \t]|$)/.test(text) ||
    /[|/#,@:][gpiIm\d]{0,5}[ew](?:\s|;|\}|$)/.test(text)
  const findings = runs ? [ambiguous('sed runs a command or writes a file')] : []
  return { findings, paths: [], secret: false }
}
