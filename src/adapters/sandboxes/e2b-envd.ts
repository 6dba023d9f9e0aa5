import { bytesFromBase64, bytesToBase64 } from '../base64.ts'
import { type E2bAccess, unavailable } from './e2b-api.ts'
import { connectFrame, readFrames } from './connect-frames.ts'

interface EnvdOptions {
  /** For all sandboxes; null: each has its own address. */
  sandboxUrl: string | null
}

interface Command {
  /** The program first. Visible in the sandbox and in the vendor's logs: never a secret. */
  args: readonly [string, ...string[]]
  /** Standard input. Goes by a stream: of single messages the vendor's daemon logs the content. */
  input: string
  tag: string
}

interface CommandResult {
  exitCode: number
  stdout: string
  stderr: string
}

interface ProcessEvent {
  start?: { pid: number }
  data?: { stdout?: string; stderr?: string }
  /** Zero and false are left out on the wire. */
  end?: { exitCode?: number; exited?: boolean; status?: string; error?: string }
}

const envdPort = '49983'
const quickMs = 15_000
const maxOutput = 256 * 1024
const chunkBytes = 256 * 1024

export type Envd = ReturnType<typeof createEnvd>

/** Commands as root in a sandbox, by its daemon's Connect protocol. */
export function createEnvd({ sandboxUrl }: EnvdOptions) {
  return {
    /** To its end. The daemon kills it after the time, too. */
    run: async (access: E2bAccess, command: Command, timeoutMs: number): Promise<CommandResult> => {
      const signal = AbortSignal.timeout(timeoutMs + quickMs)
      const limit = { 'connect-timeout-ms': String(timeoutMs) }
      const output = { stdout: '', stderr: '' }
      for await (const event of events(access, command, signal, limit)) {
        if (event.start !== undefined) await give(access, event.start.pid, command.input)
        if (event.end !== undefined) return { exitCode: exitCodeOf(event.end), ...output }
        collect(output, event)
      }
      throw unavailable('E2B ended a command without its result')
    },
    /**
     * Until it has said something, then it is left running: the daemon keeps a process whose caller goes away. Null:
     * it has ended without a word, with this code.
     */
    start: async (access: E2bAccess, command: Command): Promise<number | null> => {
      const output = { stdout: '', stderr: '' }
      for await (const event of events(access, command, AbortSignal.timeout(2 * quickMs), {})) {
        if (event.start !== undefined) await give(access, event.start.pid, command.input)
        if (event.end !== undefined) return exitCodeOf(event.end)
        collect(output, event)
        if (output.stdout !== '') return null
      }
      throw unavailable('E2B ended a command without its result')
    },
  }

  async function* events(
    access: E2bAccess,
    { args: [cmd, ...args], tag, input }: Command,
    signal: AbortSignal,
    headers: Record<string, string>,
  ): AsyncGenerator<ProcessEvent> {
    const message = { process: { cmd, args, envs: {}, cwd: '/' }, tag, stdin: input !== '' }
    const body = connectFrame(message)
    const response = await send(access, 'Start', body, 'application/connect+json', signal, headers)
    try {
      for await (const answer of readFrames(response.body as ReadableStream<Uint8Array>))
        yield (answer as { event?: ProcessEvent }).event ?? {}
    } catch (error) {
      throw isOurs(error) ? error : unavailable(`Cannot follow a command at E2B: ${why(error)}`)
    }
  }

  async function give(access: E2bAccess, pid: number, input: string): Promise<void> {
    if (input === '') return
    const signal = AbortSignal.timeout(quickMs)
    const process = { pid }
    const bytes = new TextEncoder().encode(input)
    const frames = [connectFrame({ start: { process } })]
    for (let at = 0; at < bytes.length; at += chunkBytes) {
      const stdin = bytesToBase64(bytes.subarray(at, at + chunkBytes))
      frames.push(connectFrame({ data: { input: { stdin } } }))
    }
    const body = new Uint8Array(await new Blob(frames).arrayBuffer())
    const type = 'application/connect+json'
    const answer = await send(access, 'StreamInput', body, type, signal, {})
    for await (const _ of readFrames(answer.body as ReadableStream<Uint8Array>));
    const close = JSON.stringify({ process })
    const closed = await send(access, 'CloseStdin', close, 'application/json', signal, {})
    await closed.body?.cancel()
  }

  async function send(
    access: E2bAccess,
    method: 'Start' | 'StreamInput' | 'CloseStdin',
    body: Uint8Array<ArrayBuffer> | string,
    type: string,
    signal: AbortSignal,
    headers: Record<string, string>,
  ): Promise<Response> {
    // Without it the daemon would take commands as root from whoever knows the address.
    if (!access.envdAccessToken)
      throw unavailable('E2B gave no access token for the sandbox: it is not used without one')
    const url =
      sandboxUrl ?? `https://${envdPort}-${access.sandboxID}.${access.domain ?? 'e2b.app'}`
    let response: Response
    try {
      response = await fetch(`${url}/process.Process/${method}`, {
        method: 'POST',
        redirect: 'manual',
        headers: {
          'content-type': type,
          'connect-protocol-version': '1',
          authorization: `Basic ${btoa('root:')}`,
          'e2b-sandbox-id': access.sandboxID,
          'e2b-sandbox-port': envdPort,
          'x-access-token': access.envdAccessToken,
          ...headers,
        },
        body,
        signal,
      })
    } catch (error) {
      throw unavailable(`Cannot reach the sandbox at E2B: ${why(error)}`)
    }
    if (response.ok) return response
    const text = (await response.text().catch(() => '')).slice(0, 300)
    throw unavailable(`The sandbox at E2B answered ${response.status} to ${method}: ${text}`)
  }
}

const exitCodeOf = ({ exitCode = 0, exited = false }: NonNullable<ProcessEvent['end']>) =>
  exited || exitCode !== 0 ? exitCode : 1

function collect(output: { stdout: string; stderr: string }, { data }: ProcessEvent): void {
  for (const name of ['stdout', 'stderr'] as const) {
    const bytes = data?.[name]
    if (bytes === undefined || output[name].length > maxOutput) continue
    output[name] += new TextDecoder().decode(bytesFromBase64(bytes))
  }
}

const isOurs = (error: unknown) => (error as { code?: unknown }).code === 'sandbox_unavailable'
const why = (error: unknown) => (error as Error).message
