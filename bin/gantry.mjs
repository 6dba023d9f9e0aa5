// Runs a TypeScript file of this checkout with the Node 24 that was installed beside it.
// Plain JavaScript, because the reader's own Node (20 or newer) runs this file.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const platform = `${process.platform}-${process.arch}`
const supported = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64']

function fail(message) {
  console.error(message)
  process.exit(1)
}

const [file, ...args] = process.argv.slice(2)
if (file === undefined) fail('Usage: node bin/gantry.mjs <file.ts> [arguments]')
if (!supported.includes(platform)) {
  fail(
    `Gantry does not run on ${platform} yet. It runs on ${supported.join(', ')} (on Windows: WSL 2).`,
  )
}
const node = `${root}node_modules/node-${platform}/bin/node`
if (!existsSync(node)) {
  fail(
    `Cannot find Gantry's own Node 24: "${node}" is missing.\n` +
      'Run "npm install" in the checkout, without --omit=optional: the binaries are optional dependencies, one per platform.',
  )
}

// The child reads end-of-file on descriptor 3 when this process is gone, however it ended.
const child = spawn(node, [resolve(root, file), ...args], {
  stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
  env: { ...process.env, GANTRY_PARENT_FD: '3' },
})
child.on('error', (error) => fail(`Cannot run "${node}": ${error.message}`))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']) {
  process.on(signal, () => child.kill(signal))
}
child.on('exit', (code, signal) =>
  process.exit(code ?? 128 + constants.signals[signal ?? 'SIGKILL']),
)
