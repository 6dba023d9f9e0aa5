import { ambiguous, destructive, type Finding } from '../words/finding.ts'

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
  /process\.env\s*[),;\]}]|process\.env\s*$|os\.environ(?!\s*(?:\[|\.get|\.setdefault))|Object\.\w+\(process\.env|%ENV\b|\bENV\b\s*(?:$|[,;)])|\$_(?:ENV|SERVER)\b(?!\s*\[)|ENV\.(?:to_h|each|inspect|map)|getenv\(\)/
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
      return { findings: sqlFindings(text), paths: [], secret: false }
    case 'sed':
      return sedReport(text)
    case 'awk':
      return awkReport(text)
    default:
      return {
        findings: generalFindings(program, text),
        paths: pathsIn(text),
        secret: environment.test(text),
      }
  }
}

const pathsIn = (text: string): string[] =>
  [...text.matchAll(quotedPath)].map(([, path]) => path ?? '')

/** Their clients have commands of their own, which run programs and write files. */
const clientCommand =
  /^\s*(?:\.(?:sh|shell|sy\w*|o|out\w*|once|load|excel|import|archive|backup|save|log|read|www)\b|system\s+\w)|(?:^|\s)\\[!oiw]/m

function sqlFindings(text: string): Finding[] {
  const findings = sql.test(text) ? [destructive('Drops data')] : []
  return clientCommand.test(text)
    ? [...findings, ambiguous('The client runs a command of its own')]
    : findings
}

/** Perl: `open(F, "|sh")`; PHP: `exec("sh")`. */
const pipedOpen = /\bopen\b[^;]*["']\s*\||\|\s*["']\s*\)|\bexec\s*\(/

function generalFindings(program: string, text: string): Finding[] {
  const findings: Finding[] = []
  const quotesRun =
    /^(?:perl|ruby|php)/.test(program) && (text.includes('`') || pipedOpen.test(text))
  if (quotesRun || starts.test(text)) findings.push(ambiguous('The code starts programs'))
  if (deletes.test(text)) findings.push(ambiguous('The code deletes files'))
  if (connects.test(text)) findings.push(ambiguous('The code uses the network'))
  return findings
}

function awkReport(text: string): CodeReport {
  const plain = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""')
  const runs = /\bsystem\s*\(|\|&?\s*(?:""|getline)|\bprintf?\b[^;}\n]*[^|]\|(?!\|)|@load\b/.test(
    plain,
  )
  const findings = runs ? [ambiguous('awk runs a command')] : []
  return { findings, paths: pathsIn(text), secret: /\bENVIRON\b(?!\s*\[)/.test(plain) }
}

/** GNU sed's `e` (run), `w` and `W` (write), as commands or as flags of `s`. */
function sedReport(text: string): CodeReport {
  const runs =
    /(?:^|[;{}\n\d$/])[ \t]{0,4}[ewW](?:[ \t]|$)/.test(text) ||
    /[|/#,@:][gpiIm\d]{0,5}[ew](?:\s|;|\}|$)/.test(text) ||
    /(?:^|[;{}\n])[ \t]*(?:[\d,$]+|\/[^/]*\/)?[ \t]*[wW][ \t]*[/.~]/.test(text)
  const findings = runs ? [ambiguous('sed runs a command or writes a file')] : []
  return { findings, paths: [], secret: false }
}
