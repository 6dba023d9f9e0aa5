import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { answerGit, makeRepository } from './smart-git.ts'

export interface PackageServer {
  port: number
  /** Paths, in order. */
  asked: string[]
  close: () => void
}

/**
 * On loopback: a git repository, and the package `left` as the registries of npm, Python, Rust and Go offer it. `host` is the
 * name by which it is reached; with an authorization nothing is answered without it.
 */
export async function servePackages(host: string, authorization?: string): Promise<PackageServer> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-packages-'))
  makeRepository(folder, 'repo.git', 'from a repository')
  const asked: string[] = []
  const server = createServer((incoming, outgoing) => {
    asked.push(incoming.url ?? '')
    if (authorization !== undefined && incoming.headers.authorization !== authorization)
      return void outgoing.writeHead(401, { 'www-authenticate': 'Basic' }).end()
    if (incoming.url?.startsWith('/repo.git')) return answerGit(folder, incoming, outgoing)
    answer(files, incoming, outgoing)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const files = makeFiles(folder, `http://${host}:${port}`)
  const close = () => {
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  }
  return { port, asked, close }
}

type Files = Record<string, string | Buffer>

function answer(files: Files, incoming: IncomingMessage, outgoing: ServerResponse): void {
  const content = files[incoming.url ?? '']
  const type = incoming.url?.startsWith('/simple') ? 'text/html' : 'application/json'
  if (content === undefined) outgoing.writeHead(404).end()
  else outgoing.writeHead(200, { 'content-type': type }).end(content)
}

function makeFiles(folder: string, url: string): Files {
  const put = (path: string, content: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  const pack = (name: string) =>
    execFileSync('tar', ['-czf', '-', name], { cwd: folder, maxBuffer: 10_000_000 })
  put('package/package.json', '{"name":"left","version":"1.0.0","main":"index.js"}')
  put('package/index.js', "module.exports = 'from npm'\n")
  put('left-1.0.0/Cargo.toml', '[package]\nname = "left"\nversion = "1.0.0"\nedition = "2021"\n')
  put('left-1.0.0/src/lib.rs', 'pub fn left() -> u8 { 1 }\n')
  const [tarball, crate] = [pack('package'), pack('left-1.0.0')]
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
  const cksum = createHash('sha256').update(crate).digest('hex')
  const dist = { tarball: `${url}/left/-/left-1.0.0.tgz`, integrity }
  const versions = { '1.0.0': { name: 'left', version: '1.0.0', dist } }
  const wheel = 'left-1.0.0-py3-none-any.whl'
  return {
    '/hello': 'from curl',
    '/left': JSON.stringify({ name: 'left', 'dist-tags': { latest: '1.0.0' }, versions }),
    '/left/-/left-1.0.0.tgz': tarball,
    '/simple/left/': `<a href="/wheels/${wheel}">${wheel}</a>`,
    [`/wheels/${wheel}`]: makeWheel(folder, wheel),
    '/config.json': JSON.stringify({ dl: `${url}/dl` }),
    '/le/ft/left': JSON.stringify({
      ...{ name: 'left', vers: '1.0.0', deps: [], cksum, features: {}, yanked: false },
    }),
    '/dl/left/1.0.0/download': crate,
    ...goFiles(folder),
  }
}

/** As a proxy of Go modules has them. */
function goFiles(folder: string): Files {
  const at = '/go/left.test/left/@v'
  const module = 'module left.test/left\n'
  const inside = 'left.test/left@v1.0.0'
  return {
    [`${at}/list`]: 'v1.0.0\n',
    [`${at}/v1.0.0.info`]: JSON.stringify({ Version: 'v1.0.0', Time: '2026-01-01T00:00:00Z' }),
    [`${at}/v1.0.0.mod`]: module,
    [`${at}/v1.0.0.zip`]: makeZip(join(folder, 'left.zip'), {
      [`${inside}/go.mod`]: module,
      [`${inside}/left.go`]: 'package left\n\nconst Said = "from go"\n',
    }),
  }
}

const makeWheel = (folder: string, name: string): Buffer =>
  makeZip(join(folder, name), {
    'left.py': 'said = "from pip"',
    'left-1.0.0.dist-info/METADATA': 'Metadata-Version: 2.1\nName: left\nVersion: 1.0.0\n',
    'left-1.0.0.dist-info/WHEEL': 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    'left-1.0.0.dist-info/RECORD':
      'left.py,,\nleft-1.0.0.dist-info/METADATA,,\nleft-1.0.0.dist-info/WHEEL,,\nleft-1.0.0.dist-info/RECORD,,\n',
  })

/** Empty where there is no Python to make it. */
function makeZip(path: string, content: Record<string, string>): Buffer {
  const script = `import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as made:
    for name, text in json.loads(sys.argv[2]).items(): made.writestr(name, text)`
  try {
    execFileSync('python3', ['-c', script, path, JSON.stringify(content)], { stdio: 'ignore' })
    return readFileSync(path)
  } catch {
    return Buffer.alloc(0)
  }
}
