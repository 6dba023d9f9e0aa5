import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { someOf } from '../../support/long.ts'
import { unless } from '../../support/needs.ts'
import { type PackageServer, servePackages } from '../../support/package-server.ts'
import { kinds, makePlace, run } from './place.ts'

interface Program {
  command: (url: string) => string
  says: string
  /** A program of this name may be there and be too old. */
  isNewEnough?: string
}

// Programs as people have them, inside an enclosure, with no setting but where their registry is.
const host = 'packages.test'
const programs: Record<string, Program> = {
  curl: { command: (url) => `curl -sS ${url}/hello`, says: 'from curl' },
  'curl by SOCKS': {
    command: (url) => `curl -sS --proxy "$SOCKS_PROXY" ${url}/hello`,
    says: 'from curl',
  },
  'curl by a tunnel': {
    command: (url) => `curl -sS --proxytunnel ${url}/hello`,
    says: 'from curl',
  },
  git: {
    command: (url) => `git clone -q ${url}/repo.git cloned && cat cloned/README.md`,
    says: 'from a repository',
  },
  npm: {
    command: (url) =>
      `npm install --no-audit --no-fund --registry=${url} left >/dev/null && node -p "require('left')"`,
    says: 'from npm',
  },
  // Of release 24: older ones know no proxy.
  node: {
    command: (url) =>
      `'${process.execPath}' -e "fetch('${url}/hello').then((r) => r.text()).then(console.log)"`,
    says: 'from curl',
  },
  pip: {
    command: (url) =>
      `python3 -m venv own && own/bin/pip install -q --disable-pip-version-check --trusted-host ${host} --index-url ${url}/simple left && own/bin/python -c 'import left; print(left.said)'`,
    says: 'from pip',
  },
  cargo: {
    command: (url) =>
      `cd crate && CARGO_REGISTRIES_OWN_INDEX=sparse+${url}/ cargo build -q && ls target/debug/deps | grep -c libleft`,
    says: '2',
    // Before 1.68 it knows no sparse registry.
    isNewEnough: "cargo --version | grep -qE ' 1[.](6[89]|[789][0-9]|[0-9]{3})'",
  },
  go: {
    command: (url) =>
      `cd module && GOPROXY=${url}/go GOSUMDB=off GOFLAGS=-mod=mod go run . 2>/dev/null && wc -l <go.sum`,
    says: 'from go\n2',
  },
  'curl to another host': {
    command: (url) =>
      `curl -sS --proxy "$SOCKS_PROXY" ${url.replace(host, 'other.test')}/hello 2>&1 | grep -o '(2)'; curl -s -o /dev/null -w '%{http_code}' ${url.replace(host, 'other.test')}/hello`,
    says: '(2)\n403',
  },
}

describe.each(someOf(kinds))('[WALL16] in an enclosure made by %s', (kind) => {
  const place = makePlace(kind)
  let server: PackageServer
  let output: string

  beforeAll(async () => {
    server = await servePackages(host)
    const workspace = join(place.box, 'workspace')
    mkdirSync(join(workspace, 'crate/src'), { recursive: true })
    writeFileSync(join(workspace, 'crate/src/lib.rs'), 'pub fn two() -> u8 { left::left() + 1 }\n')
    writeFileSync(
      join(workspace, 'crate/Cargo.toml'),
      '[package]\nname = "two"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nleft = { version = "1", registry = "own" }\n',
    )
    mkdirSync(join(workspace, 'module'))
    writeFileSync(
      join(workspace, 'module/go.mod'),
      'module two\n\ngo 1.19\n\nrequire left.test/left v1.0.0\n',
    )
    writeFileSync(
      join(workspace, 'module/main.go'),
      'package main\n\nimport (\n\t"fmt"\n\t"left.test/left"\n)\n\nfunc main() { fmt.Println(left.Said) }\n',
    )
    const url = `http://${host}:${server.port}`
    const steps = Object.entries(programs).map(
      ([name, { command, isNewEnough = 'true' }]) =>
        `echo "<${name}>"; if command -v ${name.split(' ')[0]} >/dev/null && ${isNewEnough}; then (${command(url)}) 2>&1; else echo absent; fi; echo "</${name}>"`,
    )
    const script = ['cp -r . ~/w; cd ~/w', ...steps].join('\n')
    const allowed = [`${host}:${server.port}`]
    output = (await run(kind, { ...place.order, script, allowed })).output
  }, 120_000)
  afterAll(async () => {
    server.close()
    await place.remove()
  })

  for (const [name, { says }] of Object.entries(programs))
    test(`${name}: through the proxy as it is`, (context) => {
      const said = output.split(`<${name}>\n`)[1]?.split(`</${name}>`)[0]?.trim()
      unless(said !== 'absent', context, name)
      expect(said).toBe(says)
    })
})
