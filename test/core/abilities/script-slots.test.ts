import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fillScriptSlots } from '../../../src/core/abilities/scripts/filling.ts'
import { readScriptSlots } from '../../../src/core/abilities/scripts/slots.ts'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'abilities-'))
})
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

const filling = (value: string) => ({ inputs: { x: value }, steps: {}, ask: '' })

function fill(source: string, value: string): string {
  const read = readScriptSlots(source)
  if ('problems' in read) throw new Error(read.problems.join('; '))
  const filled = fillScriptSlots(read, filling(value))
  if ('problem' in filled) throw new Error(filled.problem)
  return filled.script
}

/** What would run, if anything of the value ran, makes this file. */
const bait = 'pwned'
const values = [
  ...[
    '',
    ' ',
    'plain',
    'two words',
    '  spaces  ',
    'tab\there',
    'line\nbreak',
    '\n',
    'ends\n',
    '\r\n',
    'a\\',
    '\\',
    '\\\\',
    '\\n',
  ],
  ...[
    "'",
    "''",
    "it's",
    '"',
    '""',
    'a"b',
    "'\"'",
    '`',
    `\`touch ${bait}\``,
    `$(touch ${bait})`,
    `\${x:-$(touch ${bait})}`,
  ],
  ...[
    '$',
    '$$',
    '$x',
    '${HOME}',
    '$((1+1))',
    `$((a[$(touch ${bait})]))`,
    '$!',
    '!!',
    '!x',
    '~',
    '~root',
    '*',
    '?',
    '[a-z]*',
    '{a,b}',
    '{1..9}',
  ],
  ...[
    `; touch ${bait}`,
    `& touch ${bait}`,
    `| touch ${bait}`,
    `&& touch ${bait}`,
    `|| touch ${bait}`,
    `\ntouch ${bait}\n`,
    `' ; touch ${bait} ; '`,
    `" ; touch ${bait} ; "`,
    `'\ntouch ${bait}\n'`,
    `\\'; touch ${bait} #`,
  ],
  ...[
    '-rf',
    '--',
    '-',
    '--help',
    '-n',
    '-e',
    '#',
    '# comment',
    '<',
    '>',
    `> ${bait}`,
    `<(touch ${bait})`,
    '<<EOF',
    '(',
    ')',
    '{',
    '}',
  ],
  ...[
    'ä',
    '漢字',
    '😀',
    '\u202e',
    '\u00a0',
    '\u200b',
    '%s',
    '%n',
    '%%',
    '\\x41',
    '\\0',
    'EOFX',
    ' EOF',
    'END',
    '=',
    'a=b',
    'PATH=x',
  ],
]

/** Shows what it was given, each with a NUL behind it; no other program is needed. */
const prelude = `show() { printf '%s\\0' "$@"; }; take() { cat; printf '\\0'; }\n`

/** What each place shows of the value. */
const places: [string, string, (value: string) => string][] = [
  ['an argument', 'show {{inputs.x}}', (value) => value],
  ['a part of an argument', 'show --env={{ inputs.x }}/y', (value) => `--env=${value}/y`],
  ['double quotes', 'show "a {{inputs.x}} b"', (value) => `a ${value} b`],
  ['single quotes', "show 'a {{inputs.x}} b'", (value) => `a ${value} b`],
  ['an assignment', 'v={{inputs.x}}; show "$v"', (value) => value],
  ['an assignment before a command', 'V={{inputs.x}} printenv -0 V', (value) => value],
  ['a substitution', `show "$(printf '%s.' {{inputs.x}})"`, (value) => `${value}.`],
  ['a quoted here-document', "take <<'EOF'\n<{{inputs.x}}>\nEOF\n", (value) => `<${value}>\n`],
  ['a here-document', 'take <<EOF\n<{{inputs.x}}>\nEOF\n', (value) => `<${value}>\n`],
  [
    'a here-document with tabs',
    "take <<-'EOF'\n\t<{{inputs.x}}>\n\tEOF\n",
    (value) => `<${value}>\n`.replaceAll(/\n\t+/g, '\n'),
  ],
  ['a here-string', 'take <<< {{inputs.x}}', (value) => `${value}\n`],
  ['a test', 'v={{inputs.x}}; [[ "$v" == {{inputs.x}} ]] && show same', () => 'same'],
  ['a list of for', 'for v in {{inputs.x}}; do show "$v"; done', (value) => value],
  ["a shell's argument", `bash -c 'printf "%s\\0" "$1"' _ {{inputs.x}}`, (value) => value],
]

describe('values in scripts', () => {
  test.each(places)('[ABL12] %s holds every value, and nothing of it runs', (_, source, shown) => {
    const script = prelude + values.map((value) => fill(source, value)).join('\n')
    const { stdout, stderr } = spawnSync('bash', ['-c', script], {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] ?? '', HOME: folder },
    })
    expect(stdout.split('\0').slice(0, -1)).toEqual(values.map(shown))
    expect([stderr, existsSync(join(folder, bait))]).toEqual(['', false])
  })

  test.each([
    ['the name of a program', '{{inputs.x}} --help'],
    ...['sudo', 'env A=b', 'nohup', 'nice -n 5', 'timeout 5s', 'xargs', 'exec', 'time', '!'].map(
      (wrapper) => [`the program behind ${wrapper}`, `${wrapper} {{inputs.x}} a`],
    ),
    ['an escaped place', 'echo \\{{inputs.x}}'],
    ['an escaped place in quotes', 'echo "\\{{inputs.x}}"'],
    ['after a dollar sign', 'echo ${{inputs.x}}'],
    ['backticks', 'echo `echo {{inputs.x}}`'],
    ['an expansion', 'echo ${y:-{{inputs.x}}}'],
    ['arithmetic', 'echo $(({{inputs.x}} + 1))'],
    ['an arithmetic command', '(( {{inputs.x}} > 1 ))'],
    ['a number of a test', '[[ {{inputs.x}} -gt 1 ]]'],
    ['the name of a variable in a test', '[[ -v {{inputs.x}} ]]'],
    ["$'…'", "echo $'{{inputs.x}}'"],
    ['braces', 'echo {a,{{inputs.x}}}'],
    ['a comment', 'echo a # {{inputs.x}}'],
    ['a pattern of case', 'case a in {{inputs.x}}) echo b;; esac'],
    ['the name of a variable', '{{inputs.x}}=1'],
    ['an index', 'a[{{inputs.x}}]=1'],
    ['the name of a function', '{{inputs.x}}() { :; }'],
    ['eval', 'eval echo {{inputs.x}}'],
    ['eval in quotes', 'eval "echo {{inputs.x}}"'],
    ['eval behind a wrapper', 'command eval {{inputs.x}}'],
    ['code of a shell', 'bash -c "echo {{inputs.x}}"'],
    ['code of a shell with other options', 'sh -ec "echo {{inputs.x}}"'],
    [
      'code of a shell behind wrappers',
      'sudo -u bob env A=b /bin/bash -o pipefail -c "echo {{inputs.x}}"',
    ],
    ['the file that a shell runs', 'bash {{inputs.x}}'],
    ['an option of a shell', 'bash {{inputs.x}} script.sh'],
    ['another machine', 'ssh host "rm {{inputs.x}}"'],
    ['another machine behind a wrapper', 'timeout 5s ssh host "rm {{inputs.x}}"'],
    ['a script for a shell', "bash <<'EOF'\necho {{inputs.x}}\nEOF\n"],
    ['a here-string for a shell', 'bash <<< "echo {{inputs.x}}"'],
    ['find that runs a shell', 'find . -exec sh -c "echo {{inputs.x}}" \\;'],
    ['xargs that runs a shell', 'ls | xargs -n1 sh -c "echo {{inputs.x}}"'],
    ['let', 'let n={{inputs.x}}'],
    ['a number that is declared', 'declare -i n={{inputs.x}}'],
    ['a number that is local', 'f() { local -i n={{inputs.x}}; }; f'],
    ['read', 'read {{inputs.x}}'],
    ['printf into a name', 'printf -v {{inputs.x}} hi'],
    ['unset', 'unset {{inputs.x}}'],
    ['trap', 'trap {{inputs.x}} EXIT'],
    ['the name of a here-document', 'cat <<{{inputs.x}}\na\n{{inputs.x}}\n'],
    ['a script that cannot be read', 'echo "{{inputs.x}}'],
    ['an escaped place in a here-document', 'cat <<EOF\n\\{{inputs.x}}\nEOF\n'],
    ['an index in a list', 'a=([{{inputs.x}}]=1)'],
    ['a format that may be an option', 'printf {{inputs.x}} {{inputs.y}}'],
    ['a format in quotes that may be an option', 'printf "{{inputs.x}} hi" there'],
    ['a test whose operator may be a value', '[ {{inputs.x}} {{inputs.y}} ]'],
    ['a test by its other name', 'test ! "{{inputs.x}}" "{{inputs.y}}"'],
    ['a name that is exported', 'export {{inputs.x}}'],
    ['a name that is local', 'f() { local {{inputs.x}}; }; f'],
    ['a variable that a shell reads as code', 'BASH_ENV={{inputs.x}} bash run.sh'],
    ['a variable that is shown as code', 'set -x; PS4={{inputs.x}}; ls'],
    ['a variable that says which programs run', 'export PATH={{inputs.x}}:$PATH'],
    ['the program of find', 'find . -exec {{inputs.x}} \\;'],
    ['the program that a name stands for', 'hash -p {{inputs.x}} ls'],
    ['what completes', 'complete -C {{inputs.x}} ls'],
    ['code of a shell inside of another program', 'busybox sh -c {{inputs.x}}'],
    ['code of a lock', 'flock lock -c {{inputs.x}}'],
    ['code of another user', 'runuser -c {{inputs.x}}'],
    ['what a shell reads from a pipe', 'echo {{inputs.x}} | sh'],
    ['what a shell reads from a pipe by an option', 'cat {{inputs.x}} | tee log | bash -es -- a'],
    ['what a shell in a group reads from a pipe', 'echo {{inputs.x}} | { read a; sh; }'],
    ['what a shell in a group reads', '{ sh; } <<EOF\n{{inputs.x}}\nEOF\n'],
    ['what a shell in a loop reads', 'while bash; do :; done <<< {{inputs.x}}'],
    ['what another machine reads from a pipe', 'echo {{inputs.x}} | ssh host'],
    ['what xargs gives to a shell', 'echo {{inputs.x}} | xargs -I% sh -c %'],
    ['what eval gets from a substitution', 'eval "$(echo {{inputs.x}})"'],
    ['what a shell gets from a substitution', 'sh -c "$(echo {{inputs.x}})"'],
    ['the name of a program from a substitution', '$(echo {{inputs.x}}) a'],
    ['what is printed into a shell', 'echo {{inputs.x}} > >(bash)'],
    ['what a group prints into a shell', '{ echo {{inputs.x}}; } > >(bash)'],
    ['what goes into a shell on its way', 'echo {{inputs.x}} | tee >(sh) log'],
    ['the file that a shell reads', 'bash < {{inputs.x}}'],
    ['what a shell reads from a substitution', 'bash < <(echo {{inputs.x}})'],
    ['what a shell in a group reads from a substitution', '{ sh; } < <(echo {{inputs.x}})'],
    ['code of a program that a variable names', '$SHELL -c {{inputs.x}}'],
    ['code of a program that has a default', '"${SHELL:-sh}" -ec {{inputs.x}}'],
    ['a table of jobs', 'crontab <<< {{inputs.x}}'],
    ['keys of a terminal', 'tmux send-keys {{inputs.x}}'],
    ['a program beside the script', 'coproc cat {{inputs.x}}'],
    ['a program in another root', 'chroot / {{inputs.x}}'],
    ['a program that is traced', 'strace {{inputs.x}}'],
    ...[
      ...['GIT_SSH_COMMAND', 'NODE_OPTIONS', 'GIT_CONFIG_COUNT', 'PAGER', 'LESSOPEN', 'SHELL'],
      ...['GIT_EXEC_PATH', 'PYTHONPATH', 'NODE_PATH', 'PERL5LIB', 'npm_config_script_shell'],
      ...['SSH_ASKPASS', 'CLASSPATH', 'RUSTC_WRAPPER', 'DYLD_INSERT_LIBRARIES', 'ZDOTDIR'],
    ].map((name) => [`what a program runs (${name})`, `${name}={{inputs.x}} git log`]),
    ['another machine behind a program that types', 'sshpass -p a ssh host "rm {{inputs.x}}"'],
    ['another machine by another name', 'mosh host -- {{inputs.x}}'],
    ['a machine that is made here', 'vagrant ssh -c {{inputs.x}}'],
    ['what is measured', 'hyperfine {{inputs.x}}'],
    ['what a program runs, exported', 'export NODE_OPTIONS={{inputs.x}}'],
  ])('[ABL12] %s is no place for a value', (_, source) => {
    expect(readScriptSlots(source)).toHaveProperty('problems')
  })

  test.each([
    ['a function', 'f() { echo {{inputs.x}}; }; f'],
    ['a substitution that is read like a file', 'cat <(echo {{inputs.x}})'],
    ['a loop that reads from a pipe', 'echo {{inputs.x}} | while read line; do echo "$line"; done'],
    ['a script that reads from a pipe', 'echo {{inputs.x}} | sh scripts/take.sh'],
    ['a shell that was given code reads from a pipe', `echo {{inputs.x}} | sh -c 'cat' _ a`],
    ['a format behind other text', 'printf "v%s{{inputs.x}}" a'],
    ['what is printed by a format', "printf '%s' {{inputs.x}} {{inputs.y}}"],
    ['a test of two values', '[ {{inputs.x}} = {{inputs.y}} ]'],
    ['a variable of the own', 'export TARGET={{inputs.x}}'],
    ['a list', 'a=(b {{inputs.x}})'],
    ['an argument of what find runs', 'find . -exec grep {{inputs.x}} \\;'],
    ['a group that reads', '{ cat; } <<< {{inputs.x}}'],
    ['an escaped place in a quoted here-document', "cat <<'EOF'\n\\{{inputs.x}}\nEOF\n"],
    ['an escaped place in single quotes', "echo '\\{{inputs.x}}'"],
    ['a word that is also a program', 'echo {{inputs.x}} | grep at'],
    ['a program in a lock', 'flock lock ./deploy {{inputs.x}}'],
    ['a script that reads a file', 'sh scripts/take.sh < {{inputs.x}}'],
    ['an argument of a program that a variable names', '"$PYTHON" run.py {{inputs.x}}'],
    ['what is printed into another program', 'echo {{inputs.x}} > >(cat)'],
    ['a file that is printed to', 'bash build.sh > {{inputs.x}}'],
  ])('[ABL12] %s holds a value', (_, source) => {
    expect(readScriptSlots(source)).not.toHaveProperty('problems')
  })

  test('[ABL12] a value that would end its here-document is refused, as is one with NUL', () => {
    const document = readScriptSlots("cat <<'EOF'\n{{inputs.x}}\nEOF\n")
    const tabs = readScriptSlots('cat <<-EOF\n{{inputs.x}}\n\tEOF\n')
    const joined = readScriptSlots("cat <<'EOF'\nEO{{inputs.x}}\nEOF\n")
    const plain = readScriptSlots('echo {{inputs.x}}')
    if ('problems' in document || 'problems' in tabs || 'problems' in joined || 'problems' in plain)
      throw new Error('Not read')
    for (const value of ['EOF', 'a\nEOF', 'a\nEOF\ntouch x', 'EOF\n'])
      expect(fillScriptSlots(document, filling(value))).toHaveProperty('problem')
    for (const value of ['a\n\t\tEOF\nb', 'EOF'])
      expect(fillScriptSlots(tabs, filling(value))).toHaveProperty('problem')
    expect(fillScriptSlots(document, filling('\tEOF'))).toHaveProperty('script')
    expect(fillScriptSlots(joined, filling('F'))).toHaveProperty('problem')
    expect(fillScriptSlots(joined, filling('G'))).toHaveProperty('script')
    expect(fillScriptSlots(plain, filling('a\u0000b'))).toHaveProperty('problem')
  })

  test.each([
    ['bare', 'cat <<EOF\n$(echo {{inputs.x}})\nEOF\n'],
    ['in quotes', 'cat <<EOF\n$(echo "{{inputs.x}}")\nEOF\n'],
    ['after tabs', 'cat <<-EOF\n\t$(echo {{inputs.x}})\n\tEOF\n'],
    ['in another document', 'cat <<EOF\n$(cat <<END\n{{inputs.x}}\nEND\n)\nEOF\n'],
  ])(
    '[ABL12] nor may one that is in a substitution of a here-document end it (%s)',
    (_, source) => {
      const script = readScriptSlots(source)
      if ('problems' in script) throw new Error(script.problems.join())
      const value = 'a\nEOF\ntouch x #'
      expect(fillScriptSlots(script, filling(value))).toEqual({
        problem: expect.stringContaining('the end of the here-document'),
      })
      expect(fillScriptSlots(script, filling('a EOF b'))).toHaveProperty('script')
    },
  )

  test('[ABL12] a secret is named by its variable, by the quoting of its place, and refused where nothing is replaced', () => {
    const named = (source: string) => {
      const script = readScriptSlots(source)
      if ('problems' in script) throw new Error(script.problems.join())
      const filled = fillScriptSlots(script, filling('hunter2'), new Map([['x', 'S_1']]))
      expect(JSON.stringify(filled)).not.toContain('hunter2')
      return 'script' in filled ? filled.script : filled.problem
    }
    expect(named('a -{{inputs.x}}')).toBe('a -"${S_1}"')
    expect(named('a "b {{inputs.x}}"')).toBe('a "b ${S_1}"')
    expect(named("a 'b {{inputs.x}}'")).toBe(`a 'b '"\${S_1}"''`)
    expect(named('a <<E\n{{inputs.x}}\nE\n')).toBe('a <<E\n${S_1}\nE\n')
    expect(named("a <<'E'\n{{inputs.x}}\nE\n")).toMatch(/cannot stand in a quoted here-document/)
  })

  test('[ABL12] a text that looks like what stands for a value while it is read is left as it is', () => {
    expect(fill('echo GantrySlot0z GantrySlotQ {{inputs.x}}', 'v')).toBe(
      "echo GantrySlot0z GantrySlotQ 'v'",
    )
  })

  test('[ABL12] texts in braces that name nothing stay, and a script without placeholders is never changed', () => {
    const source = 'echo {{other}} ${a[0]} `x` {{ inputs }} # {{x}}'
    expect(fill(source, 'v')).toBe(source)
    // Also one that cannot be read: whether it may run is for the policy to say.
    expect(fill('echo "', 'v')).toBe('echo "')
  })
})
