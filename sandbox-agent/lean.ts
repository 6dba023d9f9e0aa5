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
 * The agent mostly waits and passes bytes on: without the compilers it is a fifth smaller. Not by the command line, and
 * not before what is needed of Node is loaded: with other flags than it was built with, Node has to compile its own modules.
 */
export function becomeLean(): void {
  Reflect.get(globalThis, 'WebSocket') // loads it, and fetch with it
  for (const flag of flags) setFlagsFromString(flag)
}
