// Whether keys on this machine may approve what sandboxes without an enclosure ask. An agent there can read what its user
// can, the admin key too, and so could answer itself: whoever starts the stack decides. Asked once at the terminal and
// kept in the state folder. start.ts asks it before the control plane starts.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import type { EnclosureReport } from '../../src/contract/enclosure.ts'
import { UnwalledApprovals } from '../../src/contract/enclosure.ts'
import { writePrivateFile } from '../state/private-files.ts'

const variable = 'GANTRY_UNWALLED_APPROVALS'

export interface Asking {
  stateDir: string
  /** What the shell says; it wins. */
  environment: Record<string, string | undefined>
  /** Its state is thrown away, and nobody else works in it. */
  isDemo: boolean
  /** Null: nobody is there to ask. */
  ask: ((question: string) => Promise<string>) | null
  print: (line?: string) => void
}

/** What the control plane is told about it. */
export async function unwalledBindings(
  walls: EnclosureReport,
  asking: Asking,
): Promise<Record<string, string>> {
  if (asking.environment[variable] || walls.level !== 'none') return {}
  return { [variable]: asking.isDemo ? 'accept' : await answerOf(walls, asking) }
}

async function answerOf(walls: EnclosureReport, asking: Asking): Promise<UnwalledApprovals> {
  const path = join(asking.stateDir, 'unwalled-approvals')
  const kept = existsSync(path) && UnwalledApprovals.safeParse(readFileSync(path, 'utf8').trim())
  if (kept && kept.success) return kept.data
  const { ask, print } = asking
  print()
  print(
    `Sandboxes have no enclosure here (${walls.why ?? walls.how}): an agent can read your keys,`,
  )
  print('and could approve what it asks itself.')
  if (ask === null) {
    print(`Approvals of sandboxes are refused. To accept them, set ${variable}=accept`)
    return 'refuse'
  }
  const isYes = /^\s*y(es)?\s*$/i.test(
    await ask('Accept approvals by keys on this machine? [y/N] '),
  )
  const answer = isYes ? 'accept' : 'refuse'
  writePrivateFile(path, `${answer}\n`)
  print(`Kept in ${path}; ${variable}=accept or refuse wins over it`)
  return answer
}

/** Null without a terminal. The terminal itself edits the line, so that Ctrl-C ends the start as ever. */
export const terminalAsk = (): Asking['ask'] =>
  process.stdin.isTTY && process.stdout.isTTY
    ? async (question) => {
        const { stdin: input, stdout: output } = process
        const terminal = createInterface({ input, output, terminal: false })
        try {
          return await terminal.question(question)
        } finally {
          terminal.close()
        }
      }
    : null
