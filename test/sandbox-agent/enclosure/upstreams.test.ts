import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { upstreamNpmrc, upstreamVariables } from '../../../sandbox-agent/enclosure/upstreams.ts'
import { type Host, useHost } from '../../support/host.ts'
import { type PackageServer, servePackages } from '../../support/package-server.ts'
import { kinds, makePlace, run } from './place.ts'

const privateHosts: string[] = []
const host = useHost({ privateHosts })
const value = 'tok-0123456789abcdef'
const authorization = `Basic ${btoa(`x-access-token:${value}`)}`

/** The control plane of this process, for agents of others. */
async function serveApp({ app }: Host): Promise<Server & { url: string }> {
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const { method = 'GET', headers } = incoming
      const body = method === 'GET' || method === 'HEAD' ? null : await buffer(incoming)
      const answer = await app.app.request(incoming.url ?? '/', {
        ...{ method, body, headers: headers as Record<string, string> },
      })
      outgoing.writeHead(answer.status, Object.fromEntries(answer.headers))
      outgoing.end(Buffer.from(await answer.arrayBuffer()))
    })()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(server, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  })
}

describe.each(kinds)('in an enclosure made by %s', (kind) => {
  const place = makePlace(kind)
  let packages: PackageServer
  let gateway: Server & { url: string }
  const said = new Map<string, string>()

  const commands = (real: string): Record<string, string> => ({
    curl: 'curl -sS "$ADDRESS/hello"',
    git: `git clone -q ${real}/repo.git cloned && cat cloned/README.md`,
    push: 'cd cloned && echo more >>README.md && git -c user.name=a -c user.email=a@b commit -qam two && git push -q origin HEAD:two && echo pushed',
    npm: `npm install --no-audit --no-fund left >/dev/null && node -p "require('left')"`,
    'npm scope': 'npm config get @team:registry',
    denied: 'curl -s "$GANTRY_UPSTREAM_DENIED_TEST/hello"',
    variables:
      'env; cat /proc/*/environ 2>/dev/null | tr "\\0" "\\n"; cat /run/gantry/* ~/.npmrc 2>/dev/null',
    straight: `curl -s -o /dev/null -w '%{http_code}' ${real}/hello`,
  })

  beforeAll(async () => {
    packages = await servePackages('127.0.0.1', authorization)
    const real = `http://127.0.0.1:${packages.port}`
    privateHosts.push(`127.0.0.1:${packages.port}`)
    gateway = await serveApp(host())
    const configurationId = await host().configuration()
    const inject = { hosts: [real], scheme: 'basic', npm: '*' }
    await host().ok('PUT', '/v1/secrets/TOKEN', { value, configurationId, inject })
    const session = await host().begin({ configurationId })
    await session.prompt()
    const denied = { host: 'denied.test', secrets: ['DENIED'], npm: ['@team'] }
    const upstreams = [...(session.manifest.upstreams ?? []), denied]
    const steps = Object.entries(commands(real)).map(
      ([name, command]) => `echo "<${name}>"; (${command}) 2>&1; echo "</${name}>"`,
    )
    const address = `ADDRESS=$GANTRY_UPSTREAM_127_0_0_1_${packages.port}`
    const { output } = await run(kind, {
      ...place.order,
      manifest: { ...place.order.manifest, upstreams },
      gateway: { url: gateway.url, token: session.token },
      allowed: [],
      script: ['cp -r . ~/w; cd ~/w', address, ...steps].join('\n'),
    })
    for (const name of Object.keys(commands(real)))
      said.set(name, output.split(`<${name}>\n`)[1]?.split(`</${name}>`)[0]?.trim() ?? output)
  }, 120_000)
  afterAll(async () => {
    packages.close()
    gateway.close()
    await place.remove()
  })

  test.each([
    ['curl', 'from curl'],
    ['git', 'from a repository'],
    ['npm', 'from npm'],
    ['npm scope', 'http://127.0.0.1:4011/'],
  ])(
    '[WALL20] %s reaches a host by its port inside, with a token that is not there',
    (name, says) => {
      expect(said.get(name)).toBe(says)
      expect(packages.asked).toContain('/left/-/left-1.0.0.tgz')
    },
  )

  test('[WALL20] a push goes there, too', () => {
    expect(said.get('push')).toBe('pushed')
    expect(packages.asked).toContain('/repo.git/info/refs?service=git-receive-pack')
  })

  test('[WALL20] each host is asked about, under the name of what is added', () => {
    expect(said.get('denied')).toBe('Gantry refused denied.test:443: no')
    expect(said.get('straight')).toBe('000')
  })

  test('[WALL20] nothing inside can read the token', () => {
    expect(said.get('variables')).toContain('GANTRY_UPSTREAM_')
    for (const form of [value, btoa(`x-access-token:${value}`)])
      for (const [name, text] of said) expect(text, name).not.toContain(form)
  })
})

test('[WALL20] variables and settings of several hosts', () => {
  const upstreams = [
    { host: 'api.github.com', secrets: ['A'], npm: [] },
    { host: 'npm.team.com:8443', secrets: ['B'], npm: ['@team', '@other'] },
  ]
  expect(upstreamVariables(upstreams)).toEqual({
    GANTRY_UPSTREAM_API_GITHUB_COM: 'http://127.0.0.1:4010',
    GANTRY_UPSTREAM_NPM_TEAM_COM_8443: 'http://127.0.0.1:4011',
    GIT_CONFIG_COUNT: '4',
    GIT_CONFIG_KEY_0: 'url.http://127.0.0.1:4010/.insteadOf',
    GIT_CONFIG_VALUE_0: 'https://api.github.com/',
    GIT_CONFIG_KEY_1: 'url.http://127.0.0.1:4010/.insteadOf',
    GIT_CONFIG_VALUE_1: 'git@api.github.com:',
    GIT_CONFIG_KEY_2: 'url.http://127.0.0.1:4010/.insteadOf',
    GIT_CONFIG_VALUE_2: 'ssh://git@api.github.com/',
    GIT_CONFIG_KEY_3: 'url.http://127.0.0.1:4011/.insteadOf',
    GIT_CONFIG_VALUE_3: 'https://npm.team.com:8443/',
    npm_config_globalconfig: '/run/gantry/npmrc',
  })
  expect(upstreamNpmrc(upstreams)).toBe(
    '@team:registry=http://127.0.0.1:4011/\n@other:registry=http://127.0.0.1:4011/\nreplace-registry-host=npm.team.com:8443\n',
  )
  expect(upstreamVariables([])).toEqual({})
})
