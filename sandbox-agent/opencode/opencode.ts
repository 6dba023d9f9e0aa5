// One running `opencode serve`: its process, its HTTP API and its stream of events. `start` resolves only when the
// server answers, refuses requests without its password, and has loaded the gate's marker and all tools of the
// manifest. The supervisor starts and ends it; turns send requests to it.

import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { constants } from 'node:os'
import type { Readable } from 'node:stream'
import type { Manifest } from '../../src/contract/manifest.ts'
import type { Enclosure, Launched } from '../enclosure/enclosure.ts'
import type { Mask } from '../enclosure/masks.ts'
import { hideFromLogs, log, messageOf, sleep } from '../log.ts'
import { signalMarked } from '../marked-processes.ts'
import { Client, type ClientRequest, opencodeClientText } from './client.ts'

const readyWithinMs = 30_000
const probeTimeoutMs = 500
const firstProbeMs = 200
const maxProbeMs = 2000
const maxLogBytes = 4 * 1024 * 1024

/** An event of OpenCode's own stream, as far as all of them have it in common. */
export interface OpenCodeEvent {
  type: string
  properties: Record<string, unknown>
}

interface OpenCodeOptions {
  binary: string
  manifest: Manifest
  environment: Record<string, string>
  enclosure: Enclosure
  masks: readonly Mask[]
  logFile: string
  onEvent: (event: OpenCodeEvent) => void
  onExit: (opencode: OpenCode, code: number | null, signal: string | null) => void
  /** Called with the process id as soon as there is one. */
  onSpawn?: () => Promise<void>
}

/** The walls could not be built: OpenCode was not started. */
export class NotEnclosed extends Error {}

/** OpenCode has answered that it does not do it. After any other failure it may have done it, or may do it yet. */
export class Refused extends Error {}

export class OpenCode {
  readonly #options: OpenCodeOptions
  readonly #launched: Launched
  readonly #child: ChildProcess
  readonly #client: Client
  readonly #authorization: string
  readonly #closed = new AbortController()
  readonly #listening: Promise<number>
  #port = 0
  version = 'unknown'
  #exited = false

  private constructor(options: OpenCodeOptions) {
    this.#options = options
    const password = randomBytes(24).toString('base64url')
    this.#authorization = `Basic ${Buffer.from(`opencode:${password}`).toString('base64')}`
    hideFromLogs(password)
    hideFromLogs(this.#authorization.slice('Basic '.length))
    this.#launched = this.#launch(password)
    this.#child = this.#launched.child
    this.#client = new Client(() => this.#launched.connect(this.#port))
    this.#listening = this.#listen(readyWithinMs)
    this.#listening.catch(() => undefined) // awaited later
    this.#child.once('exit', (code, signal) => {
      this.#exited = true
      this.#closed.abort()
      this.#client.close()
      const killedBy = signal ?? signalOf(code)
      options.onExit(this, killedBy === null ? code : null, killedBy)
    })
  }

  /** Of OpenCode's agents, whom prompts are for. Undefined: whom OpenCode takes by itself. */
  get agent(): string | undefined {
    return this.#options.manifest.agent
  }

  /** Resolves when the server answers, refuses strangers, and has the gate's marker and all tools loaded. */
  static async start(options: OpenCodeOptions): Promise<OpenCode> {
    const deadline = Date.now() + readyWithinMs
    mkdirSync(options.manifest.layout.workspace, { recursive: true })
    const opencode = new OpenCode(options)
    try {
      await options.onSpawn?.()
      await opencode.#launched.entered.catch((error: unknown) => {
        throw new NotEnclosed(messageOf(error), { cause: error })
      })
      opencode.#port = await opencode.#listening
      // At once: the first request is what makes it load its tools.
      await Promise.all([
        opencode.#loaded(deadline),
        opencode.#refusesStrangers(deadline),
        opencode.#learnVersion(),
      ])
    } catch (error) {
      opencode.kill()
      throw error
    }
    void opencode.#follow('/event', (event) => options.onEvent(event as OpenCodeEvent))
    void opencode.#follow('/global/event', (event) => opencode.#hearElsewhere(event))
    return opencode
  }

  get alive(): boolean {
    return !this.#exited
  }

  /** Throws on anything but success; 404 is null. */
  async request(
    method: string,
    path: string,
    body?: unknown,
    timeoutMs = 30_000,
  ): Promise<unknown> {
    const response = await this.#send(path, {
      method,
      ...(body !== undefined && {
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
      }),
      signal: AbortSignal.any([this.#closed.signal, AbortSignal.timeout(timeoutMs)]),
    })
    const text = await opencodeClientText(response)
    if (response.statusCode === 404) return null
    if (!isOk(response))
      throw new Refused(
        `OpenCode answered ${response.statusCode} to ${method} ${path}: ${text.slice(0, 500)}`,
      )
    return text === '' ? undefined : (JSON.parse(text) as unknown)
  }

  /** TERM, then KILL of the whole group. OpenCode swallows a TERM while it installs packages. */
  async stop(graceMs: number): Promise<void> {
    if (!this.#exited && this.#child.pid !== undefined) {
      // The group: in an enclosure OpenCode is not the process that was started.
      signalMarked(-this.#child.pid, 'SIGTERM')
      for (const until = Date.now() + graceMs; !this.#exited && Date.now() < until;) await sleep(20)
    }
    this.kill()
  }

  /** False: it is still there after so long. */
  async end(withinMs: number): Promise<boolean> {
    this.kill()
    for (const until = Date.now() + withinMs; !this.#exited && Date.now() < until;) await sleep(20)
    return this.#exited
  }

  kill(): void {
    if (this.#child.pid !== undefined) signalMarked(-this.#child.pid, 'SIGKILL')
  }

  #launch(password: string): Launched {
    const { binary, manifest, environment, enclosure } = this.#options
    const { hostname, port, workspace } = manifest.layout
    const launched = enclosure.launch({
      file: binary,
      args: ['serve', '--port', String(port), '--hostname', hostname, '--print-logs'],
      cwd: workspace,
      environment: {
        ...environment,
        ...enclosure.environment,
        OPENCODE_SERVER_PASSWORD: password,
      },
      masks: this.#options.masks,
    })
    const file = createWriteStream(this.#options.logFile, { flags: 'a', mode: 0o600 })
    file.on('error', () => undefined)
    if (launched.child.stderr) keepLog(launched.child.stderr, file)
    return launched
  }

  /** The port accepts connections before anything answers them, so the line comes first. */
  #listen(withinMs: number): Promise<number> {
    return new Promise<number>((resolve, reject) => {
      let seen = ''
      this.#child.stdout?.on('data', (chunk: Buffer) => {
        seen = (seen + chunk.toString('utf8')).slice(-4000)
        const match = /listening on http:\/\/\S+:(\d+)/.exec(seen)
        if (match?.[1]) resolve(Number(match[1]))
      })
      this.#child.once('error', (error) =>
        reject(new Error(`Cannot start OpenCode: ${error.message}`)),
      )
      this.#child.once('exit', (code, signal) =>
        reject(new Error(`OpenCode ended at start: ${signal ?? `exit code ${code}`}`)),
      )
      setTimeout(
        () => reject(new Error('OpenCode did not start to listen in time')),
        withinMs,
      ).unref()
    })
  }

  async #refusesStrangers(deadline: number): Promise<void> {
    const status = await this.#probe(deadline, async (patienceMs) => {
      const response = await this.#client.send('/global/health', probeOptions(patienceMs))
      await opencodeClientText(response)
      return response.statusCode
    })
    if (status !== 401) throw new Error(`OpenCode answers without its password: ${status}`)
  }

  async #learnVersion(): Promise<void> {
    const health = (await this.request('GET', '/global/health')) as { version?: string } | null
    this.version = health?.version ?? 'unknown'
  }

  async #loaded(deadline: number): Promise<void> {
    const { marker, toolIds } = this.#options.manifest
    const ids = await this.#probe(deadline, async () => {
      // The first of these requests loads tools and plugins, which takes longer than a probe may.
      const response = await this.#send(
        '/experimental/tool/ids',
        probeOptions(deadline - Date.now()),
      )
      const text = await opencodeClientText(response)
      if (!isOk(response)) throw new Error(`OpenCode cannot load its tools: ${text.slice(0, 500)}`)
      return JSON.parse(text) as string[]
    })
    const missing = [marker, ...toolIds].filter((id) => !ids.includes(id))
    if (missing.length > 0) throw new Error(`OpenCode has not loaded: ${missing.join(', ')}`)
  }

  async #probe<T>(deadline: number, probe: (patienceMs: number) => Promise<T>): Promise<T> {
    for (let waitMs = firstProbeMs; ; waitMs = Math.min(waitMs * 1.5, maxProbeMs)) {
      try {
        // On a machine that is busy for long, a short question would never be answered.
        return await probe(Math.max(probeTimeoutMs, 2 * waitMs))
      } catch (error) {
        if (this.#exited) throw new Error('OpenCode ended at start', { cause: error })
        if (Date.now() + waitMs > deadline)
          throw new Error(`OpenCode is not ready: ${messageOf(error)}`, { cause: error })
      }
      await sleep(waitMs)
    }
  }

  async #follow(path: string, hear: (event: unknown) => void): Promise<void> {
    while (!this.#exited) {
      try {
        const response = await this.#send(path, { signal: this.#closed.signal, alone: true })
        for await (const event of readEvents(response, path)) hear(event)
      } catch (error) {
        if (!this.#exited) log('opencode.events-lost', { path, reason: messageOf(error) })
      }
      // What was missed meanwhile is found in the message list at the end of the turn.
      await sleep(200)
    }
  }

  /** Its stream has the workspace only; one request names any other folder, and a tool runs there. */
  #hearElsewhere(event: unknown): void {
    const { directory, payload } = event as { directory?: string; payload?: OpenCodeEvent }
    if (payload?.type !== 'message.part.updated') return
    if (directory !== this.#options.manifest.layout.workspace) this.#options.onEvent(payload)
  }

  #send(path: string, request: ClientRequest): Promise<IncomingMessage> {
    const headers = { ...request.headers, authorization: this.#authorization }
    return this.#client.send(path, { ...request, headers })
  }
}

const isOk = ({ statusCode = 0 }: IncomingMessage) => statusCode >= 200 && statusCode < 300

/** As a shell tells it of what it has started. */
function signalOf(code: number | null): string | null {
  const found = Object.entries(constants.signals).find(([, number]) => code === 128 + number)
  return found?.[0] ?? null
}

// A connection of its own for each probe: one that was accepted too early is never answered.
const probeOptions = (timeoutMs: number) => ({
  alone: true,
  signal: AbortSignal.timeout(Math.max(timeoutMs, 1)),
})

async function* readEvents(response: IncomingMessage, path: string): AsyncGenerator {
  if (!isOk(response)) throw new Error(`OpenCode answered ${response.statusCode} to GET ${path}`)
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of response as AsyncIterable<Buffer>) {
    const blocks = (rest + decoder.decode(chunk, { stream: true })).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const data = block
        .split('\n')
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5))
        .join('\n')
      if (data !== '') yield JSON.parse(data) as unknown
    }
  }
}

function keepLog(from: Readable, file: WriteStream): void {
  let bytes = 0
  from.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= maxLogBytes) file.write(chunk)
  })
  from.on('end', () => file.end())
}
