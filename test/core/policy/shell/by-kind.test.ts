import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sandboxDefault } from '../../../../src/core/policy/builtin-policy.ts'
import { risksOf } from '../../../../src/core/policy/acts.ts'
import { evaluatePermission } from '../../../../src/core/policy/evaluate.ts'
import { toolRequest } from '../requests.ts'

/**
 * The words of the tables, one by one: each command by what is found in it, with the nearest one in which it is not found
 * under "clear". "# RISKS: WORDS OF THE REASON", or "secrets" and "network", which are categories.
 */
const kinds = readFileSync(join(import.meta.dirname, 'by-kind.txt'), 'utf8')
  .split(/^# /m)
  .slice(1)
  .map((part) => {
    const [heading = '', ...commands] = part.split('\n').filter((line) => line !== '')
    const [kind = '', words = ''] = heading.split(': ')
    return { heading, kind, words, commands }
  })

/** What the command has of what its kind says. */
function seen(command: string, kind: string, words: string) {
  const request = toolRequest('bash', { command })
  const { decision, reason } = evaluatePermission(request, sandboxDefault)
  const isSaid = reason.includes(words)
  if (kind === 'clear') return [command, decision === 'allow', isSaid]
  if (kind === 'secrets') return [command, decision === 'deny', isSaid]
  if (kind === 'network') return [command, reason.includes('by default for network'), isSaid]
  return [command, risksOf(request).toSorted().join(' ') === kind, isSaid]
}

test.each(kinds)('[POL9] [POL11] [POL13] [POL27] [POL31] $heading', ({ kind, words, commands }) => {
  const all = commands.map((command) => seen(command, kind, words))
  expect(all.filter(([, isKind, isSaid]) => !isKind || !isSaid)).toEqual([])
})
