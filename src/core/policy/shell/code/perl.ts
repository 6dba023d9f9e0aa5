import { type Arg, isKnown } from '../words/arg.ts'
import { ambiguous, type Finding } from '../words/finding.ts'
import { isClearSedSubstitution } from './sed.ts'

/** What sed could do as well, and lines that match. */
export const isClearPerl = (text: string): boolean =>
  !/[@$`]|\(\?|\{/.test(text) &&
  (/^print(?: if \/[^/]{0,200}\/[i]?)?;?$/.test(text.trim()) || isClearSedSubstitution(text))

/**
 * With `-n` and `-p` (and `-a`, which means `-n`) Perl opens its operands by two arguments: `id|` is a command, `>x` is
 * emptied, ` .env` is `.env`. fed: it gets operands that nobody sees.
 */
export function perlInputFindings(program: string, args: readonly Arg[], fed: boolean): Finding[] {
  if (!/^perl[\d.]*$/.test(program)) return []
  const { loops, operands } = splitWords(args)
  if (!loops || (!fed && operands.every(isPlainName))) return []
  return [ambiguous('Perl may run the name of a file as a command')]
}

function splitWords(args: readonly Arg[]): { loops: boolean; operands: readonly Arg[] } {
  let loops = false
  let at = 0
  for (; /^-./.test(args[at]?.value ?? ''); at += 1) {
    const value = args[at]?.value ?? ''
    if (value === '--') {
      at += 1
      break
    }
    // What follows `-i` is an ending.
    const letters = value.replace(/i[^a-zA-Z].*$/s, 'i')
    loops ||= /^-[a-zA-Z0-9]{0,20}[npaF]/.test(letters)
    if (/[eE]$/.test(letters)) at += 1
  }
  return { loops, operands: args.slice(at) }
}

/** A pattern counts by its ends, between which whatever it finds stands. */
const isPlainName = (arg: Arg): boolean =>
  isKnown(arg) && !arg.expands && /^[\w./@](?:.*[\w./@)%=:~-])?$/s.test(arg.value)
