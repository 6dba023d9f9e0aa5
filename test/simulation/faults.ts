import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const root = fileURLToPath(new URL('../..', import.meta.url))
const run = promisify(execFile)

/** Faults that were mended, and the rule that the simulation finds broken when one of them is put back. */
export const faults: Record<string, string> = {
  'f2-content': 'Content that is named stays',
  'f4-prompts': 'One turn at a time in a sandbox',
  'f5-questions': 'Decided in its own turn',
  'f6-ledger': 'Stored means stored',
}

/** So many seeds may be tried to find one. */
export const seedBudget = 2000

const copied = [
  'src',
  'sandbox-agent',
  'migrations',
  'test/simulation',
  'test/support',
  'package.json',
]

/** Simulates a copy of this checkout with the fault in it, and says whether the right rule is found broken. */
export async function showFault(name: string): Promise<{ isFound: boolean; output: string }> {
  const rule = faults[name]
  if (rule === undefined) throw new Error(`No fault "${name}": ${Object.keys(faults).join(', ')}`)
  const folder = mkdtempSync(join(tmpdir(), 'gantry-fault-'))
  try {
    mkdirSync(join(folder, 'test'))
    for (const path of copied) cpSync(join(root, path), join(folder, path), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    const patch = join(root, 'test/simulation/faults', `${name}.patch`)
    await run('git', ['apply', '--unsafe-paths', '--directory', folder, patch], { cwd: tmpdir() })
    const output = await simulate(folder)
    return { isFound: output.includes(rule), output }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function simulate(folder: string): Promise<string> {
  const main = join(folder, 'test/simulation/main.ts')
  try {
    return (await run(process.execPath, [main, '--count', String(seedBudget)])).stdout
  } catch (error) {
    // It ends with 1 when a rule is broken.
    return (error as { stdout: string }).stdout
  }
}
