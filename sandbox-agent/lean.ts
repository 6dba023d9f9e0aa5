import { setFlagsFromString } from 'node:v8'

const flags = [
  '--no-opt',
  '--no-maglev',
  '--no-sparkplug',
  // fetch parses HTTP in WebAssembly: compiling that again, for speed, costs 13 MB.
  '--no-wasm-tier-up',
  '--no-wasm-dynamic-tiering',
]

/**
 * Turns V8's compilers off. The agent mostly waits and passes bytes on, and without them it needs a fifth less memory. This
 * is done after Node's own modules are loaded and not by the command line: with other flags than it was built with, Node has
 * to compile those modules itself.
 */
export function becomeLean(): void {
  Reflect.get(globalThis, 'WebSocket') // loads it, and fetch with it
  for (const flag of flags) setFlagsFromString(flag)
}
