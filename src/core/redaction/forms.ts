/** How one value may be spelled in text. */
interface Forms {
  plain: string[]
  /** May be broken into lines anywhere, as `base64` does at 76 characters. */
  wrapped: string[]
}

/** Shorter values are not searched: they would be found in ordinary text, and hiding them there would tell where they are. */
export const minSecretLength = 6
const minLineLength = 16

export function formsOf(value: string): Forms {
  const plain = new Set<string>()
  const wrapped = new Set<string>()
  for (const text of variants(value.toWellFormed())) {
    for (const form of [text, ...jsonForms(text), ...percentForms(text)]) plain.add(form)
    if (text.length <= maxSpelledLength) {
      for (const form of spelledForms(text)) plain.add(form)
      for (const form of hexForms(text)) wrapped.add(form)
    }
    for (const form of base64Forms(utf8Form(text))) {
      wrapped.add(form)
      for (const encoded of [encodeURIComponent(form), lowerDigits(encodeURIComponent(form))]) {
        if (encoded !== form) plain.add(encoded)
      }
    }
  }
  return { plain: [...plain], wrapped: [...wrapped] }
}

/** Longer ones are known by their lines. */
const maxSpelledLength = 256

/** Backwards, letter by letter, and as numbers with something between them. */
function spelledForms(text: string): string[] {
  const letters = Array.from(text)
  const digits = hexDigits(text)
  const apart = [' ', ':', '-', ', '].map((between) => digits.join(between))
  return [
    letters.toReversed().join(''),
    ...[' ', '-', '.', ',', '_', ', '].map((between) => letters.join(between)),
    ...[
      ...apart,
      digits.map((two) => `\\x${two}`).join(''),
      digits.map((two) => `0x${two}`).join(' '),
    ].flatMap((form) => [
      form,
      form.toUpperCase().replaceAll(/\\X|0X/g, (sign) => sign.toLowerCase()),
    ]),
  ]
}

/** As `xxd -p` and its like write it, which break it into lines. */
const hexForms = (text: string): string[] => {
  const digits = hexDigits(text).join('')
  return [digits, digits.toUpperCase()]
}

const hexDigits = (text: string): string[] => utf8Form(text).map((byte) => hex(byte).toLowerCase())

/** Shells trim, editors change line ends, and diffs and listings show a value of many lines one by one. */
function variants(value: string): string[] {
  const lines = value.trim().split(/\r?\n/)
  const whole = [value, lines.join('\n'), lines.join('\r\n')]
  const single = lines
    .map((line) => line.trim())
    // The frame of a PEM file is no secret.
    .filter((line) => line.length >= minLineLength && !line.startsWith('-----'))
  const all = lines.length > 1 ? [...whole, ...single] : whole
  return [...new Set(all)].filter((text) => text.length >= minSecretLength)
}

/** As the encoders of different languages write it, and once more inside a JSON text that is itself a string. */
function jsonForms(text: string): string[] {
  const escaped = inJson(text)
  const unicode = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
  const ascii = escaped.replaceAll(/[\u0080-\uffff]/g, unicode)
  return [
    escaped,
    ascii,
    ascii.replaceAll(/\\u[0-9a-f]{4}/g, (code) => `\\u${code.slice(2).toUpperCase()}`),
    escaped.replaceAll(/[<>&]/g, unicode),
    escaped.replaceAll('/', '\\/'),
    inJson(escaped),
  ]
}

const inJson = (text: string) => JSON.stringify(text).slice(1, -1)

/** Encoders differ in what they leave alone, and in the case of the digits. */
function percentForms(text: string): string[] {
  const component = encodeURIComponent(text)
  const strict = component.replaceAll(/[!'()*]/g, percent)
  const forms = [
    component,
    strict,
    strict.replaceAll('%2F', '/'),
    strict.replaceAll('%20', '+').replaceAll('%2A', '*').replaceAll('~', '%7E'),
    strict.replaceAll('%20', '+'),
    encodeURI(text),
    utf8Form(text)
      .map((byte) => `%${hex(byte)}`)
      .join(''),
  ]
  return [...forms, ...forms.map(lowerDigits)]
}

const lowerDigits = (text: string) => text.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())

const percent = (char: string) => `%${hex(char.charCodeAt(0))}`
const hex = (byte: number) => byte.toString(16).toUpperCase().padStart(2, '0')

const standard = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/**
 * The value alone, and the letters that it alone decides inside something longer, for each of the three places it may
 * have there. The letter at either end that it shares with its neighbour stays; it holds at most four bits of it.
 */
function base64Forms(bytes: number[]): string[] {
  const alone = base64(bytes)
  const letters = Math.ceil((bytes.length * 8) / 6)
  const inside = [0, 1, 2].map((offset) => {
    const from = Math.ceil((offset * 8) / 6)
    const to = Math.floor(((offset + bytes.length) * 8) / 6)
    return base64([...Array<number>(offset).fill(0), ...bytes]).slice(from, to)
  })
  const forms = [alone, alone.slice(0, letters), ...inside]
  return [...forms, ...forms.map((form) => form.replaceAll('+', '-').replaceAll('/', '_'))]
}

/** By hand: core knows neither Buffer nor btoa. */
function base64(bytes: number[]): string {
  let text = ''
  for (let index = 0; index < bytes.length; index += 3) {
    const [a = 0, b, c] = bytes.slice(index, index + 3)
    const bits = (a << 16) | ((b ?? 0) << 8) | (c ?? 0)
    text += `${letter(bits >> 18)}${letter(bits >> 12)}`
    text += `${b === undefined ? '=' : letter(bits >> 6)}${c === undefined ? '=' : letter(bits)}`
  }
  return text
}

const letter = (bits: number) => standard.charAt(bits & 63)

export function utf8Form(text: string): number[] {
  const bytes: number[] = []
  for (const [, code, char = ''] of encodeURIComponent(text).matchAll(/%(..)|(.)/gs)) {
    bytes.push(code === undefined ? char.charCodeAt(0) : Number.parseInt(code, 16))
  }
  return bytes
}
