import type { KnownSecret } from './redaction.ts'
import { ByteSearch } from './byte-search.ts'
import { formsOf, minSecretLength, utf8Form } from './forms.ts'

/**
 * Finds secret values in content that must not be changed, such as the files of a snapshot or an upload: it says which
 * secret is there, and the caller refuses the content.
 */

/** Searches one content, given in pieces. */
export interface SecretSearch {
  /** The name of a secret whose value has been seen by now, in any of its forms; null: none. */
  push(bytes: Uint8Array): string | null
}

/** Of a longer value its beginning is enough to know it by. */
const maxSearchedBytes = 1024
const lineFeed = 10
const carriageReturn = 13

/** The redactor's forms, searched in bytes, so that content of any encoding and size can be read. */
export function createSecretFinder(secrets: readonly KnownSecret[]): () => SecretSearch {
  const forms = secrets
    .filter(({ value }) => value.length >= minSecretLength)
    .map(({ name, value }) => ({ name, ...formsOf(value) }))
  if (forms.length === 0) return () => ({ push: () => null })
  const plain = searchFor(forms.map(({ name, plain }) => ({ name, texts: plain })))
  const wrapped = searchFor(forms.map(({ name, wrapped }) => ({ name, texts: wrapped })))
  return () => {
    const inPlain = inPieces(plain)
    const inWrapped = inPieces(wrapped)
    return { push: (bytes) => inPlain(bytes) ?? inWrapped(withoutLineEnds(bytes)) }
  }
}

function searchFor(forms: { name: string; texts: string[] }[]): ByteSearch {
  return new ByteSearch(
    forms.flatMap(({ name, texts }) =>
      texts.map((text) => ({
        name,
        bytes: Uint8Array.from(utf8Form(text)).slice(0, maxSearchedBytes),
      })),
    ),
  )
}

/** Keeps as much of the last piece as a value could have begun in. */
function inPieces(search: ByteSearch): (bytes: Uint8Array) => string | null {
  let kept = new Uint8Array()
  return (bytes) => {
    const text = new Uint8Array(kept.length + bytes.length)
    text.set(kept)
    text.set(bytes, kept.length)
    kept = text.slice(Math.max(0, text.length - search.maxLength + 1))
    return search.find(text)
  }
}

function withoutLineEnds(bytes: Uint8Array): Uint8Array {
  if (!bytes.includes(lineFeed) && !bytes.includes(carriageReturn)) return bytes
  const kept = new Uint8Array(bytes.length)
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    const code = bytes[at] as number
    if (code !== lineFeed && code !== carriageReturn) kept[length++] = code
  }
  return kept.subarray(0, length)
}
