// The warnings of changes whose texts are not proven, and the one predicate that takes them away again.

export const unprovenWarnings = {
  edit: 'OpenCode edit was captured without a proven full-text baseline; apply/reject is manual-only.',
  write:
    'OpenCode write overwrote an existing file before the bridge had a known baseline; reject is manual-only.',
  apply_patch:
    'OpenCode apply_patch was captured without full before/after text; review is manual-only.',
  unavailable: 'OpenCode toolpart content was unavailable or too large; review is manual-only.',
} as const

const dependsOnSnapshot = 'full review depends on snapshot evidence'
export const createdWarning = `OpenCode write created the file; ${dependsOnSnapshot}.`
export const pathWarning =
  'OpenCode path is outside the workspace or cannot be named; review is manual-only.'
export const mismatchWarning =
  'The tool part differs from what came over the link while the turn ran, or never came; review is manual-only.'

const resolved: readonly string[] = Object.values(unprovenWarnings)

/** Only these five are made false by two proven texts. A warning that merely sounds like them stays. */
export const isResolvedByProof = (warning: string): boolean =>
  resolved.includes(warning) || warning.includes(dependsOnSnapshot)
