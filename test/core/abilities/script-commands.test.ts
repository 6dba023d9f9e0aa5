import { describe, expect, test } from 'vitest'
import { readScriptSlots } from '../../../src/core/abilities/scripts/slots.ts'

// The words that decide whether a value is data, each by itself: one that is missing would let a value be code.

const isRefused = (source: string): boolean => 'problems' in readScriptSlots(source)

const evaluating =
  'eval let unset read mapfile readarray trap source . alias declare typeset getopts ssh su watch parallel at batch script runuser sg hash complete compgen enable bind jobs fc wait export readonly local crontab tmux screen expect entr pkexec chroot nsenter unshare strace ltrace taskset chrt gosu'
const wrappers =
  'command builtin exec env nohup time sudo nice timeout xargs setsid stdbuf doas ionice unbuffer'
const shells = 'sh bash dash zsh ksh ash busybox fish'
const runners = 'ssh su runuser sg at batch parallel crontab'
const variables =
  'BASH_ENV ENV PS0 PS1 PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS PATH IFS LD_PRELOAD LD_LIBRARY_PATH BASH_FUNC_ls GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS GIT_PROXY_COMMAND GIT_CONFIG GIT_CONFIG_KEY_0 PAGER MANPAGER EDITOR VISUAL BROWSER LESSOPEN LESSCLOSE NODE_OPTIONS PYTHONSTARTUP PERL5OPT RUBYOPT JAVA_TOOL_OPTIONS MAKEFLAGS'

describe('[ABL12] a value is no argument', () => {
  test.each(evaluating.split(' '))(
    'of %s, also where it has a path or is behind another',
    (word) => {
      for (const before of ['', '/usr/bin/', 'sudo -u bob ', 'nice -n 5 timeout 2.5m env A=b '])
        expect([before, isRefused(`${before}${word} a {{inputs.x}}`)]).toEqual([before, true])
    },
  )

  test.each(wrappers.split(' '))('of %s, where the name of a program may stand', (word) => {
    expect(isRefused(`${word} {{inputs.x}} a`)).toBe(true)
  })

  test.each(shells.split(' '))('of %s, as its code or file; behind these it is one', (shell) => {
    for (const source of [
      '-c {{inputs.x}}',
      '{{inputs.x}}',
      '-o pipefail {{inputs.x}}',
      '+o x {{inputs.x}}',
    ])
      expect([source, isRefused(`${shell} ${source}`)]).toEqual([source, true])
    expect(isRefused(`${shell} -e run.sh {{inputs.x}}`)).toBe(false)
    expect(isRefused(`${shell} -c 'ls "$1"' _ {{inputs.x}}`)).toBe(false)
  })
})

describe('[ABL12] a value is no input', () => {
  test.each(`${shells} ${runners}`.split(' '))('of %s', (word) => {
    const host = runners.split(' ').includes(word) ? ' host' : ''
    expect(isRefused(`echo {{inputs.x}} | ${word}${host}`)).toBe(true)
    expect(isRefused(`echo {{inputs.x}} | sudo /usr/bin/${word}${host}`)).toBe(true)
    expect(isRefused(`${word}${host} <<< {{inputs.x}}`)).toBe(true)
    expect(isRefused(`tee >(${word}${host}) <<< {{inputs.x}}`)).toBe(true)
  })

  test('of what only looks like them', () => {
    for (const source of ['grep ssh', 'cat', 'xargs grep a', 'sh run.sh', 'bash -e run.sh'])
      expect([source, isRefused(`echo {{inputs.x}} | ${source}`)]).toEqual([source, false])
    for (const source of ['xargs sh', 'xargs -0 bash -c', 'sh -s', 'bash -es a'])
      expect([source, isRefused(`echo {{inputs.x}} | ${source}`)]).toEqual([source, true])
  })
})

test.each(variables.split(' '))('[ABL12] a value is not what is in %s', (name) => {
  for (const before of ['', 'export ', 'readonly ', 'f() { local '])
    expect([
      before,
      isRefused(`${before}${name}={{inputs.x}}${before.startsWith('f') ? '; }' : ''}`),
    ]).toEqual([...[before, true]])
  expect(isRefused(`MY_${name}={{inputs.x}} ls`)).toBe(false)
})

test.each([
  ['flock lock -c {{inputs.x}}', true],
  ['flock lock grep -e {{inputs.x}}', false],
  ['printf {{inputs.x}}', true],
  ['printf %s {{inputs.x}}', false],
  ['printf -v name %s {{inputs.x}}', true],
  ['/usr/bin/printf {{inputs.x}} a', true],
  ['test a = {{inputs.x}}', false],
  ['test -v {{inputs.x}}', true],
  ['[ {{inputs.x}} = b ]', false],
  ['[ -n a {{inputs.x}} ]', false],
  ['find {{inputs.x}} -name a', false],
  ['find . -exec grep {{inputs.x}} \\;', false],
  ['find . -execdir {{inputs.x}} \\;', true],
  ['find . -okdir {{inputs.x}} \\;', true],
  ['find . -ok {{inputs.x}} \\;', true],
  ['find . -exec bash -c ls {{inputs.x}} \\;', true],
  ['`which sh` -c {{inputs.x}}', true],
  ['$RUN {{inputs.x}}', false],
  ['declare name={{inputs.x}}', false],
  ['declare -i name={{inputs.x}}', true],
  ['typeset -rn name={{inputs.x}}', true],
  ['local -n name={{inputs.x}}', true],
  ['export -f name={{inputs.x}}', false],
] as const)('[ABL12] %s: refused is %s', (source, refused) => {
  expect(isRefused(source)).toBe(refused)
})

describe('[ABL12] programs that take code or a program among their words', () => {
  test.each([
    ...['rbash -c "echo {{inputs.x}}"', 'mksh -c {{inputs.x}}', 'yash -c {{inputs.x}}'],
    ...[
      'csh -c {{inputs.x}}',
      'tcsh -c {{inputs.x}}',
      'pwsh -Command {{inputs.x}}',
      'nu -c {{inputs.x}}',
    ],
    ...['bash5 -c {{inputs.x}}', 'bash-5.2 -c {{inputs.x}}', 'cmd /c {{inputs.x}}'],
    ...['timeout -s KILL 5 {{inputs.x}}', 'sudo -u root {{inputs.x}}', 'env -u A {{inputs.x}}'],
    ...[
      'flock f {{inputs.x}}',
      'npx {{inputs.x}}',
      'npx -c {{inputs.x}}',
      'npm exec -c {{inputs.x}}',
    ],
    ...[
      'stdbuf -o L {{inputs.x}}',
      'nice --adjustment 5 {{inputs.x}}',
      'sudo -E -u a nice {{inputs.x}}',
    ],
    ...[
      'git submodule foreach {{inputs.x}}',
      'git rebase -x {{inputs.x}} main',
      'git -c {{inputs.x}} log',
    ],
    ...[
      'git rebase --exec={{inputs.x}}',
      'git bisect run {{inputs.x}}',
      'git bisect run sh -c {{inputs.x}}',
    ],
    ...[
      'git -C a -c core.pager={{inputs.x}} log',
      'git config alias.x {{inputs.x}}',
      'git {{inputs.x}}',
    ],
    ...[
      'git config --global core.sshCommand {{inputs.x}}',
      'git config {{inputs.x}} y',
      'git clone -u {{inputs.x}} a',
    ],
    ...[
      'git difftool -x {{inputs.x}}',
      'git filter-branch --tree-filter {{inputs.x}}',
      'git grep -O{{inputs.x}} a',
    ],
    ...[
      'tar --to-command={{inputs.x}} -xf a',
      'tar -xf a -I {{inputs.x}}',
      'tar --checkpoint-action={{inputs.x}} -cf a b',
    ],
    ...['fd -x {{inputs.x}}', 'fd a --exec {{inputs.x}}', 'fdfind a -X timeout 5 {{inputs.x}}'],
    ...['find . -exec timeout 5 {{inputs.x}} \\;', 'find . -exec env A=b {{inputs.x}} \\;'],
    ...[
      'watch {{inputs.x}}',
      'watch -n 1 "ls {{inputs.x}}"',
      'su -c {{inputs.x}}',
      'script -c {{inputs.x}}',
    ],
    ...[
      'perl -e {{inputs.x}}',
      'perl -ne "print {{inputs.x}}"',
      'python3 -c "print({{inputs.x}})"',
      'node -e {{inputs.x}}',
    ],
    ...[
      'node --eval={{inputs.x}}',
      'ruby -e{{inputs.x}}',
      'php -r {{inputs.x}}',
      'psql -c "select {{inputs.x}}"',
    ],
    ...[
      'node {{inputs.x}}',
      'python3 -m {{inputs.x}}',
      'awk "{print {{inputs.x}}}" a',
      'awk -F : {{inputs.x}} a',
    ],
    ...['sed "s/a/{{inputs.x}}/" a', 'sed -i -e {{inputs.x}} a', 'sed -n {{inputs.x}}p a'],
    ...['make SHELL={{inputs.x}}', 'make --eval={{inputs.x}}', 'make -C a VERSION={{inputs.x}}'],
    ...[
      'rsync -e {{inputs.x}} a b',
      'scp -o {{inputs.x}} a b',
      'vim -c {{inputs.x}}',
      'split --filter={{inputs.x}} a',
    ],
    ...[
      'python3 <<< {{inputs.x}}',
      "python3 - a <<'EOF'\nprint('{{inputs.x}}')\nEOF\n",
      'echo {{inputs.x}} | node',
    ],
    ...[
      "psql <<EOF\nselect '{{inputs.x}}'\nEOF\n",
      'echo {{inputs.x}} | perl -',
      'echo {{inputs.x}} | csh',
    ],
    ...['echo {{inputs.x}} | xargs -I{} python3 -c {}', 'echo {{inputs.x}} | xargs -I% %'],
  ])('%s', (source) => {
    expect(isRefused(source)).toBe(true)
  })

  test.each([
    ...[
      'git switch -c {{inputs.x}}',
      'git push -u origin {{inputs.x}}',
      'git commit -m {{inputs.x}}',
      'git -C {{inputs.x}} log',
    ],
    ...[
      'git config user.name {{inputs.x}}',
      'git clone {{inputs.x}} a',
      'git log --since={{inputs.x}}',
      'git rebase {{inputs.x}}',
    ],
    ...[
      'git bisect run ./test.sh {{inputs.x}}',
      'git checkout -b {{inputs.x}}',
      'git show {{inputs.x}}:a',
      'git archive {{inputs.x}}',
    ],
    ...[
      'tar -xf {{inputs.x}}',
      'tar -czf {{inputs.x}} src',
      'tar -C {{inputs.x}} -xf a',
      'fd {{inputs.x}} src',
      'fd a -x grep {{inputs.x}}',
    ],
    ...[
      'find . -name {{inputs.x}} -exec ls {} \\;',
      'find . -exec grep {{inputs.x}} {} +',
      'find . -exec ls \\; -name {{inputs.x}}',
    ],
    ...[
      'perl run.pl {{inputs.x}}',
      'python3 -m pytest {{inputs.x}}',
      'python3 run.py --name {{inputs.x}}',
      'node run.js {{inputs.x}}',
    ],
    ...[
      "perl -e 'print @ARGV' {{inputs.x}}",
      "python3 -c 'import sys' {{inputs.x}}",
      "awk -v n={{inputs.x}} '{print n}' a",
    ],
    ...[
      "awk '{print}' {{inputs.x}}",
      "sed -n '1p' {{inputs.x}}",
      "sed -e 's/a/b/' {{inputs.x}}",
      'jq --arg n {{inputs.x}} .a b',
    ],
    ...[
      'make {{inputs.x}}',
      'npm test -- {{inputs.x}}',
      'npm run {{inputs.x}}',
      'npx vitest run {{inputs.x}}',
      'npx -y a {{inputs.x}}',
    ],
    ...[
      'timeout -s KILL 5 ls {{inputs.x}}',
      'sudo -u root ls {{inputs.x}}',
      'env -u A ls {{inputs.x}}',
      'sudo -E ls {{inputs.x}}',
    ],
    ...[
      'curl -d {{inputs.x}} https://a.example',
      'curl -u {{inputs.x}} https://a.example',
      'gh pr create --title {{inputs.x}}',
      'rsync -a {{inputs.x}} b',
    ],
    ...[
      'go run ./cmd {{inputs.x}}',
      'cargo run -- {{inputs.x}}',
      'docker build -t {{inputs.x}} .',
      'psql -v a={{inputs.x}} -f a.sql',
    ],
    ...[
      'echo {{inputs.x}} | python3 run.py',
      'echo {{inputs.x}} | xargs -n1 grep a',
      'sort -k {{inputs.x}} a',
      'kubectl set image a={{inputs.x}}',
    ],
    ...[
      'cat <<EOF | jq .\n{{inputs.x}}\nEOF\n',
      'grep -e {{inputs.x}} a',
      'grep -rn {{inputs.x}} src',
      'mkdir -p {{inputs.x}}',
      'tee {{inputs.x}}',
    ],
  ])('not %s', (source) => {
    expect(isRefused(source)).toBe(false)
  })
})
