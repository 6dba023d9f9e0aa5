import { join, resolve } from 'node:path'
import { root } from '../binaries.ts'

/**
 * The folder of a local stack: the one that is given, where an empty text is none, else one in the checkout. The
 * Deno host has one of its own inside: what one host stores says nothing to the other.
 */
export function stateDirOf(
  given = '',
  { unset = '.gantry', host }: { unset?: string; host?: string } = {},
): string {
  return join(given === '' ? join(root, unset) : resolve(given), host === 'deno' ? 'deno' : '')
}
