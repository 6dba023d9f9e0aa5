import { execFileSync, spawn } from 'node:child_process'
import type { IncomingMessage, ServerResponse } from 'node:http'

const gitEnv = {
  PATH: process.env['PATH'],
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'a',
  GIT_AUTHOR_EMAIL: 'a@b',
  GIT_COMMITTER_NAME: 'a',
  GIT_COMMITTER_EMAIL: 'a@b',
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: 'safe.directory',
  GIT_CONFIG_VALUE_0: '*',
}

/** A bare repository of this name in the folder, with one commit of a README. */
export function makeRepository(folder: string, name: string, readme: string): void {
  const git = (...args: string[]) => execFileSync('git', ['-C', folder, ...args], { env: gitEnv })
  git('init', '--quiet', '--initial-branch=main', 'work')
  execFileSync('sh', ['-c', 'echo "$1" > work/README.md', 'sh', readme], { cwd: folder })
  git('-C', 'work', 'add', '.')
  git('-C', 'work', 'commit', '--quiet', '-m', 'one')
  git('clone', '--quiet', '--bare', 'work', name)
}

/** As git's own server does, by its smart protocol. */
export function answerGit(
  folder: string,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): void {
  const [path = '', query = ''] = (incoming.url ?? '').split('?')
  const { 'git-protocol': protocol, 'content-encoding': encoding } = incoming.headers
  const backend = spawn('git', ['http-backend'], {
    env: {
      ...gitEnv,
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: path,
      QUERY_STRING: query,
      REQUEST_METHOD: incoming.method,
      CONTENT_TYPE: incoming.headers['content-type'] ?? '',
      // Who may read may write.
      ...(incoming.headers.authorization && { REMOTE_USER: 'a' }),
      ...(protocol && { GIT_PROTOCOL: String(protocol) }),
      ...(encoding && { HTTP_CONTENT_ENCODING: encoding }),
    },
  })
  incoming.pipe(backend.stdin)
  const chunks: Buffer[] = []
  backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  backend.on('close', () => {
    const whole = Buffer.concat(chunks)
    const end = whole.indexOf('\r\n\r\n')
    for (const line of whole.subarray(0, end).toString().split('\r\n')) {
      const [name = '', value = ''] = line.split(': ')
      if (name === 'Status') outgoing.statusCode = Number.parseInt(value, 10)
      else outgoing.setHeader(name, value)
    }
    outgoing.end(whole.subarray(end + 4))
  })
}
