import { canonicalJson } from '../../../contract/canonical.ts'
import type { EvidenceBundle, EvidenceFile, EvidencePart } from '../../../contract/evidence.ts'
import type { SessionKernel } from '../record/kernel.ts'

/**
 * The bundle as it may be decided on and kept. A text that holds a secret is not there any more: with the secret replaced
 * it would not be the text that was, and could not be put back. A part that holds one is not whole.
 */
export function hideEvidenceSecrets(kernel: SessionKernel, bundle: EvidenceBundle): EvidenceBundle {
  const hide = <T>(value: T): T => kernel.hide(value)
  const { files, parts, ...rest } = bundle
  return {
    ...hide(rest),
    files: files.map((file) => hideSides(file, hide)),
    parts: parts.map((part) => hideInput(part, hide)),
  }
}

type Hide = <T>(value: T) => T

function hideSides(file: EvidenceFile, hide: Hide): EvidenceFile {
  const side = (each: EvidenceFile['before']): EvidenceFile['before'] =>
    each.state === 'text' && hide(each.text) !== each.text
      ? { state: 'unavailable', code: 'secret-replaced' }
      : each
  return { ...file, before: side(file.before), after: side(file.after) }
}

function hideInput(part: EvidencePart, hide: Hide): EvidencePart {
  const shown = hide(part)
  const isWhole =
    canonicalJson([shown.input, shown.metadata]) === canonicalJson([part.input, part.metadata])
  return isWhole ? shown : { ...shown, inputTruncated: true }
}
