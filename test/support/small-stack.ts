import { chmodSync, mkdtempSync, renameSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { binary } from '../../local/binaries.ts'
import { type Stack, startStack } from '../../local/stack/stack.ts'
import { makeSmallOpenCode } from './small-opencode.ts'
import { openShared } from './stack.ts'

/** What the sandbox host takes for Node when it starts an agent. */
let agentNode: string | undefined

/**
 * A whole stack with real sandboxes and agents and a small OpenCode: an organisation of its own for one file, in the
 * stack that this process has. `node`: what runs the agents of this file instead of Node.
 */
export function useSmallStack(node?: () => Promise<string> | string): () => Stack {
  let stack: Stack
  beforeAll(async () => {
    stack = await openShared('small', start)
    if (node) runAgentsBy(await node())
  })
  afterAll(() => runAgentsBy(binary('node')))
  return () => stack
}

function start(): Promise<Stack> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-node-'))
  chmodSync(folder, 0o755)
  agentNode = join(folder, 'node')
  runAgentsBy(binary('node'))
  return startStack({
    stateDir: mkdtempSync(join(tmpdir(), 'gantry-small-')),
    host: 'deno',
    model: 'none',
    // Effects of bash are counted in a folder of this machine, over several sandboxes: an enclosure does not see it.
    env: { RATE_LIMIT_PER_MINUTE: '1000000', GANTRY_ENCLOSURE: 'off' },
    hostOptions: { node: agentNode, opencode: makeSmallOpenCode() },
  })
}

/** The shell becomes the program, so the process stays the same. */
function runAgentsBy(program: string): void {
  if (agentNode === undefined) return
  const draft = `${agentNode}.new`
  writeFileSync(draft, `#!/bin/sh\nexec "${program}" "$@"\n`, { mode: 0o755 })
  renameSync(draft, agentNode)
}
