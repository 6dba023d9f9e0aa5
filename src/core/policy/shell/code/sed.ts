import { patternEnd } from './pattern.ts'

/**
 * Whether a sed script only changes the text that passes through it. Reading and writing files (`r`, `w`), running commands
 * (`e`, also as a flag of `s`) and whatever is not known here make it unclear. Reads each character once.
 */
export function isClearSed(script: string): boolean {
  const reader = new Reader(script, true)
  while (!reader.atEnd()) if (!reader.command()) return false
  return true
}

/** The same of what sed and Perl share: nothing but substitutions. To Perl brackets in a pattern hide no delimiter. */
export function isClearSedSubstitution(script: string): boolean {
  return [true, false].every((readsBrackets) => {
    const reader = new Reader(script, readsBrackets)
    while (!reader.atEnd()) if (!reader.substitution()) return false
    return true
  })
}

const plain = 'pdDgGhHnNPx=lqQFz'

/**
 * Reads a sed script command by command. It promises to end, in one pass, and to say no as soon as something is not known:
 * what it has read to the end has substitutions and the plain commands alone.
 */
class Reader {
  #at = 0
  readonly #text: string
  readonly #readsBrackets: boolean

  constructor(text: string, readsBrackets: boolean) {
    this.#text = text
    this.#readsBrackets = readsBrackets
  }

  atEnd(): boolean {
    while (/[\s;{}]/.test(this.#text[this.#at] ?? '')) this.#at += 1
    return this.#at >= this.#text.length
  }

  command(): boolean {
    if (!this.#address()) return false
    this.#spaces()
    if (this.#text[this.#at] === ',') {
      this.#at += 1
      this.#spaces()
      if (!this.#address()) return false
    }
    while (/[\s!{]/.test(this.#text[this.#at] ?? '')) this.#at += 1
    const letter = this.#text[this.#at] ?? ''
    this.#at += 1
    if (letter === '') return true
    if (letter === '#') return this.#line()
    if (letter === 's' || letter === 'y') return this.#substitution(letter)
    if ('aic'.includes(letter)) return this.#lines()
    if ('btT:'.includes(letter)) return this.#label()
    if (!plain.includes(letter) && letter !== '}') return false
    this.#spaces()
    this.#digits()
    return this.#ends()
  }

  substitution(): boolean {
    const letter = this.#text[this.#at] ?? ''
    this.#at += 1
    return (letter === 's' || letter === 'y') && this.#substitution(letter)
  }

  /** A number, `$`, `/…/`, `\%…%`, `0~4`, `+3`; also none. */
  #address(): boolean {
    const char = this.#text[this.#at] ?? ''
    if (char === '$') this.#at += 1
    else if (char === '/' || char === '\\') {
      if (char === '\\') this.#at += 1
      if (!this.#pattern(this.#text[this.#at] ?? '')) return false
      while (/[IM]/.test(this.#text[this.#at] ?? '')) this.#at += 1
    } else if (/[\d+~]/.test(char)) {
      this.#at += 1
      while (/[\d~]/.test(this.#text[this.#at] ?? '')) this.#at += 1
    }
    return true
  }

  #substitution(letter: string): boolean {
    const delimiter = this.#text[this.#at] ?? ''
    if (delimiter === '' || /[\n\\]/.test(delimiter)) return false
    if (!(letter === 's' ? this.#pattern(delimiter) : this.#until(delimiter))) return false
    this.#at -= 1
    if (!this.#until(delimiter)) return false
    while (letter === 's' && /[gpiImM\d]/.test(this.#text[this.#at] ?? '')) this.#at += 1
    return this.#ends()
  }

  /** The same for a pattern. */
  #pattern(delimiter: string): boolean {
    const end = patternEnd(this.#text, this.#at + 1, delimiter, this.#readsBrackets)
    this.#at = end + 1
    return end >= 0
  }

  /** From one delimiter to behind the next one. */
  #until(delimiter: string): boolean {
    for (this.#at += 1; this.#at < this.#text.length; this.#at += 1) {
      const char = this.#text[this.#at]
      if (char === '\\') this.#at += 1
      else if (char === delimiter) {
        this.#at += 1
        return true
      }
    }
    return false
  }

  #lines(): boolean {
    while (this.#at < this.#text.length && this.#text[this.#at] !== '\n')
      this.#at += this.#text[this.#at] === '\\' ? 2 : 1
    return true
  }

  #label(): boolean {
    while (/[ \w.-]/.test(this.#text[this.#at] ?? '')) this.#at += 1
    return this.#ends()
  }

  #line(): boolean {
    const end = this.#text.indexOf('\n', this.#at)
    this.#at = end < 0 ? this.#text.length : end
    return true
  }

  #digits(): void {
    while (/\d/.test(this.#text[this.#at] ?? '')) this.#at += 1
  }

  #spaces(): void {
    while (/[ \t]/.test(this.#text[this.#at] ?? '')) this.#at += 1
  }

  #ends(): boolean {
    this.#spaces()
    const char = this.#text[this.#at] ?? ''
    return char === '' || ';}\n#'.includes(char)
  }
}
