import { evidenceLimits } from '../../../contract/evidence.ts'

/**
 * The texts between two changes of one file, which neither a snapshot nor a tool part has: they are computed and kept as
 * blobs like all others, so that many small edits of a large file would make much of little. All of one bundle together
 * are at most as many bytes as a bundle may have texts.
 */
export class DerivedTexts {
  #left: number = evidenceLimits.bytesInTotal

  /** False: it would be too much. */
  take(text: string): boolean {
    this.#left -= text.length
    return this.#left >= 0
  }
}
