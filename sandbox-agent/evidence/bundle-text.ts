import { type EvidenceBundle, maxBundleBytes } from '../../src/contract/evidence.ts'

/** Of the inputs of all parts together. Beyond it an input is left out but for the name of its file. */
const maxInputBytes = 4 * 1024 * 1024

/** The bundle as it is posted: what would be too much is left out whole and said to be, never cut. */
export function bundleText(bundle: EvidenceBundle): string {
  const fitting = withoutLongInputs(bundle)
  const text = JSON.stringify(fitting)
  if (Buffer.byteLength(text) <= maxBundleBytes) return text
  return JSON.stringify({ ...fitting, files: fitting.files.map(withoutTexts) })
}

function withoutLongInputs(bundle: EvidenceBundle): EvidenceBundle {
  let left = maxInputBytes
  const parts = bundle.parts.map((part) => {
    left -= Buffer.byteLength(JSON.stringify(part.input))
    if (left >= 0) return part
    const filePath = part.input?.['filePath']
    return { ...part, input: filePath === undefined ? null : { filePath }, inputTruncated: true }
  })
  return { ...bundle, parts }
}

const tooMuch = { state: 'unavailable', code: 'total-budget' } as const

function withoutTexts(file: EvidenceBundle['files'][number]): EvidenceBundle['files'][number] {
  const { before, after } = file
  return {
    ...file,
    before: before.state === 'text' ? tooMuch : before,
    after: after.state === 'text' ? tooMuch : after,
  }
}
