import type { KnownSecret } from '../redaction.ts'
import { formsOf, minSecretLength, utf8 } from './forms.ts'
import { Matcher } from './matcher.ts'

/** Searches one content, given in pieces. */
export interface SecretSearch {
  /** The name of a secret whose value has been seen by now, in any of its forms; null: none. */
  push(bytes: Uint8Array): string | null
}

interface Literals {
  matcher: Matcher
  names: string[]
}

const lineFeed = 10
const carriageReturn = 13

/** The redactor's forms, searched in bytes, so that content of any encoding and size can be read. */
export function createSecretFinder(secrets: readonly KnownSecret[]): () => SecretSearch {
  const forms = secrets
    .filter(({ value }) => value.length >= minSecretLength)
    .map(({ name, value }) => ({ name, ...formsOf(value) }))
  if (forms.length === 0) return () => ({ push: () => null })
  const plain = toLiterals(forms.map(({ name, plain }) => ({ name, texts: plain })))
  const wrapped = toLiterals(forms.map(({ name, wrapped }) => ({ name, texts: wrapped })))
  return () => searchOf(plain, wrapped)
}

function searchOf(plain: Literals, wrapped: Literals): SecretSearch {
  let inPlain = 0
  let inWrapped = 0
  let found: string | null = null
  return {
    push(bytes) {
      if (found !== null) return found
      for (let at = 0; at < bytes.length; at++) {
        const code = bytes[at] as number
        inPlain = plain.matcher.next(inPlain, code)
        let hit = plain.matcher.foundAt(inPlain)
        if (hit !== -1) return (found = plain.names[hit] ?? '')
        if (code === lineFeed || code === carriageReturn) continue
        inWrapped = wrapped.matcher.next(inWrapped, code)
        hit = wrapped.matcher.foundAt(inWrapped)
        if (hit !== -1) return (found = wrapped.names[hit] ?? '')
      }
      return null
    },
  }
}

/** One character per byte. */
const toBytes = (text: string) => String.fromCharCode(...utf8(text))

function toLiterals(forms: { name: string; texts: string[] }[]): Literals {
  const all = forms.flatMap(({ name, texts }) =>
    texts.map((text) => ({ name, bytes: toBytes(text) })),
  )
  return { matcher: new Matcher(all.map(({ bytes }) => bytes)), names: all.map(({ name }) => name) }
}
