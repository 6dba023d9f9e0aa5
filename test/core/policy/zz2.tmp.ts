import { toolRequest } from './requests.ts'
import { evaluatePermission } from '../../../src/core/policy/evaluate.ts'
import { sandboxDefault } from '../../../src/core/policy/sandbox-default.ts'
import { readFileSync } from 'node:fs'
const cs = readFileSync('test/core/policy/everyday-commands.txt', 'utf8')
  .split('\n')
  .filter((l) => l && !l.startsWith('#'))
  .map((l) => l.replaceAll('\\n', '\n'))
for (const enclosure of ['full', 'none'] as const) {
  const r = cs
    .map(
      (c) =>
        [
          c,
          evaluatePermission(toolRequest('bash', { command: c }), sandboxDefault, { enclosure }),
        ] as const,
    )
    .filter(([, d]) => d.decision !== 'allow')
  console.log(enclosure, r.length, cs.length, ((100 * r.length) / cs.length).toFixed(1) + '%')
  for (const [c, d] of r)
    console.log('  ', d.decision, JSON.stringify(c).slice(0, 70), '<', d.reason.slice(0, 110))
}
