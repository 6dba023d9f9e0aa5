// Objects of a git store, asked for one after the other: one `git cat-file` inside the walls answers for a whole collect,
// since entering the walls costs more than what is read there. What it says is checked against the hash that was asked
// for. Readers of the snapshot store ask it; one that does not answer in time is ended, and the next reader has a new one.

import { createHash } from 'node:crypto'
import type { Writable } from 'node:stream'
import type { Run } from '../enclosure/reader.ts'

export interface StoreProgram {
  run: Run
  environment: Record<string, string>
}

export interface StoredObject {
  type: string
  size: number
  /** Null: only type and size were asked for. */
  content: Buffer | null
}

/** 'missing': the store has none of this name; 'unreadable': what it has is not what its hash says. */
export type ObjectAnswer = StoredObject | 'missing' | 'unreadable'

const settings = ['core.fsmonitor=false', 'core.hooksPath=/dev/null'].flatMap((each) => [
  '-c',
  each,
])
/** Nothing is fetched or replaced. */
const environment = {
  GIT_NO_LAZY_FETCH: '1',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_OPTIONAL_LOCKS: '0',
}

const forms = ['--batch', '--batch-check'] as const

/** Of one answer to one question. A folder of a hundred thousand files is a tree of about four. */
const maxAnswerBytes = 16 * 1024 * 1024
/** It lives for one collect. */
const maxLifeMs = 60_000

/** The programs of one collect, by store and by what they are asked for. */
export class StoreObjects {
  readonly #program: StoreProgram
  readonly #open = new Map<string, Conversation>()

  constructor(program: StoreProgram) {
    this.#program = program
  }

  /** Types and sizes. Null: there was no answer within this time. */
  sizes(store: string, hashes: readonly string[], timeoutMs: number) {
    return this.#ask(store, '--batch-check', hashes, timeoutMs)
  }

  /** Whole objects. Null: there was no answer within this time. */
  contents(store: string, hashes: readonly string[], timeoutMs: number) {
    return this.#ask(store, '--batch', hashes, timeoutMs)
  }

  /** Nothing more is asked of this store. */
  leave(store: string): void {
    for (const form of forms) this.#end(`${form} ${store}`)
  }

  close(): void {
    for (const key of [...this.#open.keys()]) this.#end(key)
  }

  #end(key: string): void {
    this.#open.get(key)?.leave()
    this.#open.delete(key)
  }

  async #ask(
    store: string,
    form: (typeof forms)[number],
    hashes: readonly string[],
    timeoutMs: number,
  ): Promise<ObjectAnswer[] | null> {
    if (hashes.length === 0) return []
    const key = `${form} ${store}`
    const conversation = this.#open.get(key) ?? new Conversation(this.#program, store, form)
    this.#open.set(key, conversation)
    const answers = await conversation.ask(hashes, timeoutMs)
    if (answers === null) this.#open.delete(key)
    return answers
  }
}

interface Question {
  hashes: readonly string[]
  answers: ObjectAnswer[]
  answered: (answers: ObjectAnswer[] | null) => void
}

/** One program and the question that it is at. */
class Conversation {
  readonly #hasContent: boolean
  #question: Question | null = null
  #heard: Buffer[] = []
  #heardBytes = 0
  /** The next look is worth it from so many bytes on. */
  #neededBytes = 0
  #stdin: Writable | undefined
  #kill = () => undefined as unknown
  #isOver = false

  constructor({ run, environment: own }: StoreProgram, store: string, form: string) {
    this.#hasContent = form === '--batch'
    const args = [`--git-dir=${store}`, ...settings, 'cat-file', form]
    const options = {
      environment: { ...own, ...environment },
      maxBytes: Infinity,
      timeoutMs: maxLifeMs,
    }
    const talk = {
      begin: (stdin: Writable, kill: () => void) => this.#begin(stdin, kill),
      hear: (chunk: Buffer) => this.#hear(chunk),
    }
    const over = () => this.#end()
    run('git', args, { ...options, talk }).then(over, over)
  }

  ask(hashes: readonly string[], timeoutMs: number): Promise<ObjectAnswer[] | null> {
    if (this.#isOver) return Promise.resolve(null)
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#end(), timeoutMs)
      const answered = (answers: ObjectAnswer[] | null) => {
        clearTimeout(timer)
        this.#question = null
        resolve(answers)
      }
      this.#question = { hashes, answers: [], answered }
      this.#send()
    })
  }

  /** Nobody asks any more: it ends by itself. */
  leave(): void {
    this.#isOver = true
    this.#stdin?.end()
  }

  #end(): void {
    this.#isOver = true
    this.#kill()
    this.#question?.answered(null)
  }

  /** Again if the walls had fallen: then it is asked again what it had not answered. */
  #begin(stdin: Writable, kill: () => void): void {
    if (this.#isOver) return kill()
    this.#stdin = stdin
    this.#kill = kill
    this.#heard = []
    this.#heardBytes = this.#neededBytes = 0
    if (this.#question) this.#question.answers = []
    this.#send()
  }

  #send(): void {
    if (this.#question)
      this.#stdin?.write(this.#question.hashes.map((hash) => `${hash}\n`).join(''))
  }

  #hear(chunk: Buffer): void {
    this.#heard.push(chunk)
    this.#heardBytes += chunk.length
    if (this.#heardBytes < this.#neededBytes) return
    let rest = Buffer.concat(this.#heard)
    while (this.#question) {
      const taken = this.#take(this.#question, rest)
      if (taken === 0) break
      rest = rest.subarray(taken)
    }
    this.#heard = [rest]
    this.#heardBytes = rest.length
  }

  /** "hash type size\n", with contents the bytes and a line feed; or "hash missing\n". How many bytes that was. */
  #take(question: Question, heard: Buffer): number {
    const { hashes, answers, answered } = question
    const asked = hashes[answers.length] as string
    const end = heard.indexOf(10)
    if (end === -1) {
      this.#neededBytes = 0
      if (heard.length > 1000) this.#end()
      return 0
    }
    const [name, type = '', size = ''] = heard.toString('latin1', 0, end).split(' ')
    const isFound = name === asked && /^\d+$/.test(size)
    const bytes = isFound ? Number(size) : 0
    if (this.#hasContent && bytes > maxAnswerBytes) {
      this.#end()
      return 0
    }
    const content = isFound && this.#hasContent ? bytes + 1 : 0
    this.#neededBytes = end + 1 + content
    if (heard.length < this.#neededBytes) return 0
    const whole = this.#hasContent ? Buffer.from(heard.subarray(end + 1, end + 1 + bytes)) : null
    answers.push(isFound ? checked({ type, size: bytes, content: whole }, asked) : 'missing')
    const taken = this.#neededBytes
    this.#neededBytes = 0
    if (answers.length === hashes.length) answered(answers)
    return taken
  }
}

function checked(object: StoredObject, hash: string): ObjectAnswer {
  const { type, size, content } = object
  if (content === null) return object
  const algorithm = hash.length === 64 ? 'sha256' : 'sha1'
  const is = createHash(algorithm).update(`${type} ${size}\0`).update(content).digest('hex')
  return is === hash ? object : 'unreadable'
}
