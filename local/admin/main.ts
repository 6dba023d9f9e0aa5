import { runAdmin } from './admin.ts'

process.exitCode = await runAdmin(process.argv.slice(2), {
  environment: process.env,
  say: (line) => console.error(line),
  print: (line) => new Promise((done) => process.stdout.write(`${line}\n`, () => done())),
  // npm moves to the checkout; a path is meant from where npm was called.
  cwd: (process.env['npm_lifecycle_event'] === 'admin' && process.env['INIT_CWD']) || process.cwd(),
})
