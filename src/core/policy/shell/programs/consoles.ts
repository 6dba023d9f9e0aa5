import { type Arg, substituted } from '../words/arg.ts'
import { ambiguous, type Finding, type Stdin } from '../words/finding.ts'

/**
 * Runtimes and debuggers that read what they run from standard input: some always, some unless they are given a file, all
 * if an option or a lone dash says so. Shells and interpreters of which a script is looked into are in shells.ts.
 */
const always = /^(?:iex|irb|pry|ghci|jshell|dlv|jdb|ipython|utop|groovysh|pdb)$/
const runtimes =
  /^(?:python[\d.]*|pypy[\d.]*|node|nodejs|bun|deno|tsx|ts-node|ts-node-esm|php[\d.]*|lua[\d.]*|luajit|ruby[\d.]*|perl[\d.]*|elixir|erl|ocaml|julia|scala|groovy|clojure|clj|crystal|nim|swift|dart|go|zig|roc|rails|dotnet|kotlin|kotlinc|R|r|Rscript|rscript|rustc|sbt|jupyter|zx|racket|guile)$/
const consoleWords = /^(?:repl|console|c|shell|fsi|interactive)$/
const interactive = /^(?:-[a-zA-Z]{0,3}i[a-zA-Z]{0,3}|--interactive)$/
const stream = /^(?:-|\/dev\/(?:stdin|fd\/\d{1,3})|\/proc\/self\/fd\/\d{1,3})$/

/** isRead: its code is looked into. */
export function consoleFindings(
  program: string,
  args: readonly Arg[],
  stdin: Stdin,
  isRead: boolean,
): Finding[] {
  if (stdin.kind === 'none' || !(always.test(program) || runtimes.test(program))) return []
  const stays = args.some(({ value }) => interactive.test(value))
  if (isRead && !stays) return []
  const operands = args.map(({ value }) => value).filter((value) => !/^-./.test(value))
  const reads =
    always.test(program) ||
    operands.every((word) => stream.test(word)) ||
    operands.some((word, at) => stream.test(word) && at < 3) ||
    consoleWords.test(operands[0] ?? '') ||
    stays ||
    args.some(({ value }) => value === substituted)
  const only = args.every(({ value }) => /^--?(?:v|V|version|help|h)$/.test(value))
  return reads && (args.length === 0 || !only)
    ? [ambiguous(`"${program}" runs what it is given`)]
    : []
}
