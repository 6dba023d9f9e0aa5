import type { Arg } from '../words/arg.ts'
import { ambiguous, type Finding } from '../words/finding.ts'

/** Programs that are harmless but for an argument that names a command. Those that only run another one are wrappers. */
const table: readonly [programs: string, argument: RegExp][] = [
  [
    'tar gtar bsdtar',
    /^--(?:checkpoint-action|to-command|use-compress|info-script|new-volume-script|rsh)|^-[a-zA-Z]*I$/,
  ],
  ['socat', /^(?:exec|system|shell):/i],
  ['mapfile readarray compgen complete', /^-[a-zA-Z]*C/],
  ['bind', /^-[a-z]*x/],
  ['shopt', /^(?:expand_aliases|dotglob|extglob|nocaseglob|cdable_vars|autocd)$/],
  ['jq gojq jaq', /^-L|^--library-path|\b(?:import|include)\s{0,4}"/],
  ['yq', /\b(?:load(?:_\w+)?|env|strenv|envsubst)\b/],
  ['find gfind', /^-files0-from$/],
  // `--data-urlencode x@file`
  ['curl', /%output\{|^[\w.-]{1,60}@[^@\s]+$/],
  ['zip', /^-@$/],
  ['7z 7za', /^@|^-i[r0-9-]{0,3}@/],
  // A rule of its filter may be to read a file, whose lines it then shows as errors.
  ['rsync', /^(?:--filter=|-[a-zA-Z]{0,10}f)?(?:(?:dir-)?merge|[.:])[-+CenwsrpxP/,]{0,8}[ _]/],
  ['fc', /^-e/],
  ['vi vim nvim view ex vimdiff gvim', /^(?:\+|-[cSs]|--cmd)/],
  ['ed red', /^/],
  ['emacs emacsclient', /^-{1,2}(?:eval|e|f|l|load|funcall|script|execute)/],
  ['less more most', /^\+/],
  ['man', /^-(?:[PH]|-pager|-html)/],
  ['gdb lldb', /^-{1,2}(?:ex|eval|x$|command|batch|o$|s$|iex|ix)/],
  ['expect', /^-c/],
  ['split', /^--filter/],
  ['sort', /^--compress/],
  ['fd fdfind', /^--exec|^-[a-zA-Z]{1,20}[xX]$/],
  ['rg', /^--(?:pre|hostname-bin)(?:=|$)/],
  ['ag ack', /^--pager/],
  ['make gmake', /^(?:--eval|-E|-$|-f-$|-f\/dev\/|--(?:make)?file=(?:-$|\/dev\/))|^\/dev\//],
  ['gcc g++ cc c++ clang clang++', /^-(?:wrapper|fplugin|fpass-plugin|Xclang)/],
  ['rename prename perl-rename file-rename', /system|exec|unlink|`|\/[a-z]*e[a-z]*$/],
  ['deno', /^https?:/i],
  [
    'tmux',
    /#\(|^(?:new|neww|split|splitw|respawn|run|send|if|pipe|popup|source|set|bind|confirm|command|-f)/,
  ],
  ['screen', /^-[a-zA-Z]*[dDXc]/],
]

const checks = new Map<string, RegExp[]>()
for (const [programs, argument] of table)
  for (const name of programs.split(' ')) checks.set(name, [...(checks.get(name) ?? []), argument])

/** `tar xPf`: its first argument may do without a dash. */
const absoluteNames = /^(?:-[a-zA-Z]*P|--absolute-names$)/

/** `tar cfT x list` */
const namesListed = /^(?:-[a-zA-Z]*T$|-T|--files-from)/

export function runningFindings(program: string, args: readonly Arg[]): Finding[] {
  const dangers = checks.get(program) ?? []
  const findings = args.some(({ value }) => dangers.some((argument) => argument.test(value)))
    ? [ambiguous('An argument says what is run')]
    : []
  const leaves =
    program === 'tar' &&
    args.some(({ value }, index) =>
      absoluteNames.test(index === 0 ? `-${value.replace(/^-/, '')}` : value),
    )
  const listed =
    /^(?:g|bsd)?tar$/.test(program) &&
    args.some(({ value }, index) =>
      namesListed.test(index === 0 ? `-${value.replace(/^-/, '')}` : value),
    )
  return [
    ...findings,
    ...(leaves ? [ambiguous('The archive says where files go')] : []),
    ...(listed ? [ambiguous('A file says what is packed')] : []),
  ]
}
