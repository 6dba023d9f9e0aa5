import { spawn } from 'node:child_process'
import type { Run } from '../../enclosure/reader.ts'
import type { Owner } from '../../workspace/folder.ts'
import { signalMarked } from '../../marked-processes.ts'

interface BoundedOptions {
  environment: Record<string, string>
  owner: Owner | undefined
  /** Behind walls, where they are given. */
  run?: Run | undefined
  deadline: number
  input?: string | Buffer
  maxBytes?: number
}
export interface Bounded {
  /** null: it was killed. */
  code: number | null
  stdout: Buffer
  stderr: string
  /** More was printed than was kept. */
  cut: boolean
}

const maxErrorBytes = 8 * 1024

/**
 * Runs a program for the agent itself, as the sandbox's user, with limits for its time and its output. It starts in the
 * root folder: the agent, which may be root, never enters a folder that somebody could have replaced by a symlink.
 */
export async function runBounded(
  file: string,
  args: string[],
  options: BoundedOptions,
): Promise<Bounded> {
  const { maxBytes = 1024 * 1024, environment, input, run } = options
  if (run) {
    const timeoutMs = Math.max(0, options.deadline - Date.now())
    const limits = { environment, maxBytes, timeoutMs, ...(input !== undefined && { input }) }
    const { code, output, bytes, errors } = await run(file, args, limits)
    return { code, stdout: output, stderr: errors, cut: bytes > maxBytes }
  }
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      cwd: '/',
      env: options.environment,
      stdio: 'pipe',
      detached: true,
      ...options.owner,
    })
    const end = () => signalMarked(-(child.pid ?? 0), 'SIGKILL')
    const timer = setTimeout(end, Math.max(0, options.deadline - Date.now()))
    const stdout = gather(child.stdout, maxBytes, end)
    const stderr = gather(child.stderr, maxErrorBytes)
    child.stdin.on('error', () => undefined) // it may end without reading everything
    child.stdin.end(options.input ?? '')
    child.on('error', reject)
    child.on('exit', end) // what it left behind would hold its pipes open
    child.on('close', (code) => {
      clearTimeout(timer)
      resolve({
        code,
        stdout: stdout.bytes(),
        stderr: stderr.bytes().toString(),
        cut: stdout.cut(),
      })
    })
  })
}

function gather(stream: NodeJS.ReadableStream, maxBytes: number, onFull?: () => void) {
  const chunks: Buffer[] = []
  let bytes = 0
  stream.on('data', (chunk: Buffer) => {
    if (bytes <= maxBytes) chunks.push(chunk)
    bytes += chunk.length
    if (bytes > maxBytes) onFull?.()
  })
  return {
    bytes: () => Buffer.concat(chunks).subarray(0, maxBytes),
    cut: () => bytes > maxBytes,
  }
}
