import { type DiagnosticCode, evidenceLimits } from '../../../contract/evidence.ts'

/** In all patches of one bundle. One of a hundred places in a file of ten thousand lines is a twentieth of it. */
const maxComparisons = 20_000_000

/**
 * The texts between two changes of one file, which neither a snapshot nor a tool part has: they are computed and kept as
 * blobs like all others, so that many small edits of a large file would make much of little. All of one bundle together
 * are at most as many bytes as a bundle may have texts.
 */
export class DerivedTexts {
  readonly #holdsSecret: (text: string) => boolean
  #left: number = evidenceLimits.bytesInTotal
  #comparisons = maxComparisons

  constructor(holdsSecret: (text: string) => boolean = () => false) {
    this.#holdsSecret = holdsSecret
  }

  /** Why it may not be kept; null: it may. */
  take(text: string): DiagnosticCode | null {
    this.#left -= text.length
    if (this.#left < 0) return 'total-budget'
    return this.#holdsSecret(text) ? 'secret-replaced' : null
  }

  /** False: it would be too much. So many lines that are looked through for those of a patch. */
  readonly mayCompare = (lines: number): boolean => {
    if (lines > this.#comparisons) return false
    this.#comparisons -= lines
    return true
  }
}
