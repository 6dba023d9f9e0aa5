import { expect, test } from 'vitest'
import { literalArg } from '../../../../src/core/policy/shell/words/arg.ts'
import { operandUses } from '../../../../src/core/policy/shell/words/operands.ts'

/** r: its content is taken. n: it is only named or written. t: it is no path. */
const usesOf = (program: string, words: string): string =>
  operandUses(program, words.split(' ').map(literalArg), false)
    .map((use) => use[0])
    .join('')

test.each<[program: string, words: string, uses: string]>([
  ['cat', 'a b', 'rr'],
  ['ls', '-l a b', 'rnn'],
  // The last is where it goes, unless an option says that.
  ['cp', 'a b c', 'rrn'],
  ['cp', 'a', 'r'],
  ['cp', '-t a b c', 'rnrr'],
  ['cp', '-at a -v b c', 'rnrrr'],
  ['cp', '-ta b c', 'nrr'],
  ['cp', '--target-directory a b', 'rnr'],
  ['cp', '--target-directory=a b', 'nr'],
  ['cp', '-- -t a', 'rrn'],
  ['xxd', '-c 16 a b', 'rtrn'],
  // A letter in a cluster, and what is glued to it.
  ['grep', 'p a', 'tr'],
  ['grep', '-rf a b', 'rrr'],
  ['grep', '-rfa b', 'rr'],
  ['grep', '-rie p a', 'rtr'],
  ['grep', '-riep a', 'tr'],
  ['grep', '-A 1 p a', 'rttr'],
  ['grep', '-f a -n b', 'rrrr'],
  ['grep', '--file a b', 'rrr'],
  ['grep', '--file=a b', 'rr'],
  ['grep', '--exclude-from a p b', 'rrtr'],
  ['grep', '--include=a p b', 'ttr'],
  // A value is no option, and behind two dashes there is none.
  ['grep', '-e -f a', 'rtr'],
  ['grep', '-- -e a', 'rtr'],
  ['grep', 'p - a', 'trr'],
  ['cut', '-d -f a', 'rtr'],
  ['sort', '-nt -k a', 'rtr'],
  ['rg', '--files a', 'rr'],
  ['ag', '-g p a', 'rtr'],
  ['ag', '-p a p b', 'rrtr'],
  ['sed', '-i.bef p a', 'ttr'],
  ['sed', '-nEf a b', 'rrr'],
  ['awk', '-F -f p a', 'rttr'],
  ['awk', '-E a b', 'rrr'],
  ['jq', '-e p a', 'rtr'],
  ['jq', '--arg a b p c', 'rtttr'],
  ['jq', '--rawfile a b p c', 'rtrtr'],
  ['jq', '--arg a --arg p b', 'rtttr'],
  ['jq', '--rawfile', 'r'],
  ['jq', '-nf a', 'rr'],
  ['yq', 'p a', 'tr'],
  ['yq', 'a', 'r'],
  ['find', 'a -name b -newer c', 'rrtrr'],
  ['node', '-pe c a', 'rtr'],
  ['node', 'a -e b', 'rrr'],
  ['psql', 'a -c b', 'rrt'],
  ['git log', '--pretty a -S b', 'rrrt'],
  ['git commit', '-S -am b --file=c', 'rrtr'],
  ['git commit', '-Sx --format=a b', 'ttr'],
  ['git ls-files', '-oX a b', 'rrn'],
  ['curl', '-sF a=@b -d @c -d d', 'rrrrrt'],
  ['node', '--env-file a b', 'nnr'],
  ['expr', 'a = b', 'ttt'],
  ['test', 'a = b', 'tnt'],
])('[POL12] the words of "%s %s" are %s', (program, words, uses) => {
  expect(usesOf(program, words)).toBe(uses)
})
