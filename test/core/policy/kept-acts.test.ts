import { expect, test } from 'vitest'
import { keepActSegments } from '../../../src/core/policy/acts.ts'
import { sandboxDefault } from '../../../src/core/policy/builtin-policy.ts'
import { evaluatePermission } from '../../../src/core/policy/evaluate.ts'
import { request, root } from './requests.ts'

/** Each changes what one command of the list means. */
const places = [
  {},
  { cwd: `${root}/src/deep` },
  { home: root },
  { variables: { OUT: `${root}/out` } },
  { variables: { OUT: '/etc' } },
  { workspaceRoot: `${root}/src` },
  { sessionPaths: ['/tmp/kept'] },
]
const commands = [
  ...['cat ../../x', 'cat ~/x', 'cat $OUT/x', `cat ${root}/x`],
  ...['cat /tmp/kept/x', 'rg --hidden x /tmp/kept'],
]

test('[GATE2] [POL1] a command that was read before is decided as one that is read anew, wherever it is asked', () => {
  const segmentsOf = keepActSegments()
  const seen = new Set<string>()
  for (let round = 0; round < 2; round++)
    for (const command of commands)
      for (const place of places) {
        const asked = request({ category: 'shell', operation: 'run', command, ...place })
        const anew = evaluatePermission(asked, sandboxDefault)
        expect(evaluatePermission(asked, sandboxDefault, { segmentsOf })).toEqual(anew)
        seen.add(`${command} ${anew.decision}`)
      }
  // The place makes a difference to each of them, so that this says something.
  for (const command of commands)
    expect([...seen].filter((each) => each.startsWith(command)).length).toBeGreaterThan(1)
})
