import { describe, expect, test } from 'vitest'
import { readScriptSlots } from '../../../src/core/abilities/script-slots.ts'

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
  ['declare name={{inputs.x}}', true],
  ['local -n name={{inputs.x}}', true],
  ['export -f name={{inputs.x}}', false],
] as const)('[ABL12] %s: refused is %s', (source, refused) => {
  expect(isRefused(source)).toBe(refused)
})
