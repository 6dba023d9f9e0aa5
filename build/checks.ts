import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { binary, root } from '../local/binaries.ts'

export interface Check {
  name: string
  program: string
  args: string[]
}

const tool = (name: string, path: string, ...args: string[]): Check => ({
  name,
  program: binary('node'),
  args: [join(root, 'node_modules', path), ...args],
})

/** Everything that must hold without running the code. `npm run check` and `npm test` both run this list. */
export const checks: readonly Check[] = [
  // One process for all three: they share most files, and what has not changed since is not looked at again.
  tool('types', 'typescript/bin/tsc', '-b', '.', 'src/core', 'tsconfig.worker.json'),
  {
    name: 'types of the Deno host',
    program: binary('deno'),
    args: ['check', '--quiet', 'src/deno.ts', 'test/support/deno.ts'],
  },
  tool('lint', 'oxlint/bin/oxlint', '--type-aware'),
  tool('format', 'oxfmt/bin/oxfmt', '--check'),
]

/** One after the other, so that what they say does not mix. True if all hold. */
async function runAll(): Promise<boolean> {
  let allHold = true
  for (const check of checks) {
    const holds = await runCheck(check)
    console.log(`${holds ? '✓' : '✗'} ${check.name}`)
    allHold &&= holds
  }
  return allHold
}

function runCheck({ program, args }: Check): Promise<boolean> {
  const child = spawn(program, args, { cwd: root, stdio: 'inherit' })
  return new Promise((resolve) => {
    child.once('error', (error) => {
      console.error(error.message)
      resolve(false)
    })
    child.once('close', (code) => resolve(code === 0))
  })
}

if (import.meta.main) process.exit((await runAll()) ? 0 : 1)
