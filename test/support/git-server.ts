import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, normalize } from 'node:path'
import { onTestFinished } from 'vitest'

export interface GitServer {
  url: string
  port: number
  branch: string
  /** That were tried. */
  users: string[]
  secrets: string[]
}

/** For one test: a private repository over plain HTTP, files behind a name and a secret; or everything moved elsewhere. */
export async function serveGit(user: string, secret: string, movedTo?: string): Promise<GitServer> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-git-'))
  const branch = 'topic'
  makeRepository(folder, branch)
  const users: string[] = []
  const secrets: string[] = []
  const server = createServer((request, response) => {
    const [status, body, headers] = answer(request.url?.replace('/repository', '') ?? '', request)
    response.writeHead(status, headers).end(body)
  })
  type Answer = [status: number, body?: Buffer | null, headers?: Record<string, string>]
  function answer(url: string, { headers }: IncomingMessage): Answer {
    if (movedTo !== undefined) return [301, null, { location: movedTo + url }]
    const [, encoded] = (headers.authorization ?? '').split('Basic ')
    const [name = '', given = ''] = Buffer.from(encoded ?? '', 'base64')
      .toString()
      .split(':')
    users.push(name)
    secrets.push(given)
    if (name !== user || given !== secret)
      return [401, null, { 'www-authenticate': 'Basic realm="git"' }]
    const [path = ''] = url.split('?')
    const file = join(folder, 'bare', normalize(decodeURIComponent(path)))
    const isFile = existsSync(file) && statSync(file).isFile()
    return isFile ? [200, readFileSync(file)] : [404]
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
    rmSync(folder, { recursive: true, force: true })
  })
  return { url: `http://127.0.0.1:${port}/repository`, port, branch, users, secrets }
}

function makeRepository(folder: string, branch: string): void {
  const work = join(folder, 'work')
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { stdio: 'pipe' })
  git('init', '--quiet', '--initial-branch=main', work)
  writeFileSync(join(work, 'readme.txt'), 'of main\n')
  git('-C', work, 'add', '.')
  git('-C', work, 'commit', '--quiet', '-m', 'one')
  git('-C', work, 'checkout', '--quiet', '-b', branch)
  writeFileSync(join(work, 'readme.txt'), 'of the branch\n')
  git('-C', work, 'commit', '--quiet', '-am', 'two')
  git('-C', work, 'checkout', '--quiet', 'main')
  git('clone', '--quiet', '--bare', work, join(folder, 'bare'))
  git('-C', join(folder, 'bare'), 'update-server-info')
}
