import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { runVerifyCommand } from './command.ts'

process.exitCode = await runVerifyCommand(process.argv.slice(2), {
  say: (line) => console.log(line),
  read: (path) => readFileSync(resolve(cwd(), path)),
  fetch: (url) => fetch(url),
})

/** npm moves to the checkout; a path is meant from where npm was called. */
function cwd(): string {
  const calledFrom = process.env['npm_lifecycle_event'] === 'verify' && process.env['INIT_CWD']
  return calledFrom || process.cwd()
}
