// The lines of a bundle as a tree of hashes, after RFC 6962: with its root and a short path, a line can be shown to be one
// of them without showing any other.

import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'

/** A leaf and a node begin with different bytes, so that neither can be taken for the other. */
export const merkleLeaf = (line: string): string =>
  bytesToHex(sha256(concatBytes(Uint8Array.of(0), utf8ToBytes(line))))
const nodeOf = (left: string, right: string): string =>
  bytesToHex(sha256(concatBytes(Uint8Array.of(1), hexToBytes(left), hexToBytes(right))))

/** The largest power of two below it. */
function splitAt(size: number): number {
  let half = 1
  while (half * 2 < size) half *= 2
  return half
}

/** All of its nodes, level by level: two are one above them, and the last of an odd number goes up as it is. */
export class MerkleTree {
  readonly #levels: string[][]

  constructor(lines: readonly string[]) {
    this.#levels = [lines.map(merkleLeaf)]
    for (let below = this.#levels[0] ?? []; below.length > 1; below = this.#levels.at(-1) ?? [])
      this.#levels.push(levelAbove(below))
  }

  get root(): string {
    return this.#levels.at(-1)?.[0] ?? bytesToHex(sha256(new Uint8Array()))
  }

  /** The hashes beside the way from a leaf to the root, the lowest first. */
  path(index: number): string[] {
    return this.#levels.flatMap((level, height) => {
      const beside = level[(index >> height) ^ 1]
      return beside === undefined ? [] : [beside]
    })
  }
}

const levelAbove = (below: readonly string[]): string[] =>
  below.flatMap((left, at) => {
    const right = below[at + 1]
    return at % 2 === 1 ? [] : [right === undefined ? left : nodeOf(left, right)]
  })

/** The root to which a leaf at this place leads. Null: the path has not the length of such a tree. */
export function merkleRootFrom(
  leaf: string,
  { index, size, path }: { index: number; size: number; path: readonly string[] },
): string | null {
  if (index < 0 || index >= size) return null
  if (size === 1) return path.length === 0 ? leaf : null
  const beside = path.at(-1)
  if (beside === undefined) return null
  const half = splitAt(size)
  const rest = path.slice(0, -1)
  if (index < half) {
    const left = merkleRootFrom(leaf, { index, size: half, path: rest })
    return left && nodeOf(left, beside)
  }
  const right = merkleRootFrom(leaf, { index: index - half, size: size - half, path: rest })
  return right && nodeOf(beside, right)
}
