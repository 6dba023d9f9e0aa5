import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer, text } from 'node:stream/consumers'
import { z } from 'zod'
import type { Box } from './e2b-double-box.ts'
import { type EnvdContext, reply, userOf } from './e2b-double-http.ts'

const Path = z.strictObject({ path: z.string() })
const ListDir = z.strictObject({ path: z.string(), depth: z.number().optional() })
const Move = z.strictObject({ source: z.string(), destination: z.string() })

/** Files by way of commands in the box, so that its own rights and mounts count. Whether it was one of its requests. */
export async function serveFiles(
  box: Box,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
  context: EnvdContext,
): Promise<boolean> {
  if (path === '/files') {
    await (request.method === 'GET'
      ? download(box, request, response)
      : upload(box, request, response))
    return true
  }
  const method = /^\/filesystem\.Filesystem\/(\w+)$/.exec(path)?.[1]
  if (method === undefined) return false
  const message = JSON.parse(await text(request)) as unknown
  context.log(JSON.stringify({ method, message }))
  const answer = await serve(box, method, message, userOf(request), context)
  if (answer === null) reply(response, 404, { code: 'not_found', message: 'no such file' })
  else reply(response, 200, answer)
  return true
}

async function serve(
  box: Box,
  method: string,
  message: unknown,
  user: string,
  context: EnvdContext,
): Promise<object | null> {
  const run = (script: string, ...args: string[]) => shell(box, user, script, args)
  if (method === 'Stat') return entryOf(await run(stat, Path.parse(message).path))
  if (method === 'MakeDir')
    return entryOf(await run(`mkdir -p -- "$1" && ${stat}`, Path.parse(message).path))
  if (method === 'Remove') {
    const { code } = await run('rm -r -- "$1"', Path.parse(message).path)
    return code === 0 ? {} : null
  }
  if (method === 'Move') {
    const { source, destination } = Move.parse(message)
    return entryOf(await run(`mv -- "$2" "$1" && ${stat}`, destination, source))
  }
  if (method === 'ListDir') {
    const { path, depth = 1 } = ListDir.parse(message)
    const script = `cd -- "$1" && find "$PWD" -mindepth 1 -maxdepth "$2" -exec stat --printf '${format}' {} +`
    const { code, stdout } = await run(script, path, String(depth))
    return code === 0 ? { entries: stdout.toString().split('\n').slice(0, -1).map(entry) } : null
  }
  return context.unknown(`filesystem.Filesystem/${method}`)
}

const format = '%n\\t%F\\t%s\\t%a\\t%U\\t%G\\t%Y\\n'
const stat = `stat --printf '${format}' -- "$1"`

const entryOf = ({ code, stdout }: { code: number | null; stdout: Buffer }) =>
  code === 0 ? { entry: entry(stdout.toString().trimEnd()) } : null

function entry(line: string): object {
  const [path = '', kind, size, mode = '0', owner, group, time] = line.split('\t')
  return {
    name: path.split('/').at(-1),
    type: kind === 'directory' ? 'FILE_TYPE_DIRECTORY' : 'FILE_TYPE_FILE',
    path,
    size,
    mode: Number.parseInt(mode, 8),
    permissions: mode,
    owner,
    group,
    modifiedTime: new Date(Number(time) * 1000).toISOString(),
  }
}

async function download(
  box: Box,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { path, user } = queryOf(request)
  const { code, stdout } = await shell(box, user, 'cat -- "$1"', [path])
  if (code !== 0) return reply(response, 404, { code: 404, message: `path "${path}" not found` })
  response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(stdout)
}

async function upload(box: Box, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { path, user } = queryOf(request)
  const type = request.headers['content-type'] ?? ''
  const body = await buffer(request)
  const content = type.startsWith('multipart/') ? await fileIn(body, type) : body
  const script = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
  const { code } = await shell(box, user, script, [path], content)
  if (code !== 0) return reply(response, 500, { code: 500, message: 'cannot write' })
  response
    .writeHead(200, { 'content-type': 'application/json' })
    .end(JSON.stringify([{ name: path.split('/').at(-1), type: 'file', path }]))
}

async function fileIn(body: Buffer, type: string): Promise<Buffer> {
  const form = await new Response(new Uint8Array(body), {
    headers: { 'content-type': type },
  }).formData()
  const file = form.get('file')
  if (!(file instanceof Blob)) throw new Error('An upload without a file')
  return Buffer.from(await file.arrayBuffer())
}

function queryOf(request: IncomingMessage): { path: string; user: string } {
  const { searchParams } = new URL(request.url ?? '/', 'http://box')
  return { path: searchParams.get('path') ?? '', user: searchParams.get('username') ?? 'user' }
}

async function shell(
  box: Box,
  user: string,
  script: string,
  args: string[],
  input?: Buffer,
): Promise<{ code: number | null; stdout: Buffer }> {
  const order = { cmd: 'sh', args: ['-c', script, 'sh', ...args], tag: null, user }
  const cwd = user === 'root' ? '/root' : '/home/user'
  const { child } = box.spawn(order, { envs: {}, cwd, stdin: true })
  child.stdin?.end(input)
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  child.stderr?.resume()
  const stdout = child.stdout === null ? Buffer.alloc(0) : await buffer(child.stdout)
  return { code: await ended, stdout }
}
