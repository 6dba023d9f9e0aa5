// Hosts that the sandbox reaches without TLS and without a credential of its own: each has a port of the inside's
// loopback, and what comes there goes by the control plane, which adds the secret. Programs find the ports by variables,
// git by rewritten addresses, npm by a file of settings.

import type { Upstream } from '../../src/contract/manifest.ts'

const firstPort = 4010

export const upstreamPort = (n: number): number => firstPort + n
export const upstreamAddress = (n: number): string => `http://127.0.0.1:${upstreamPort(n)}`

/** Of the host itself, as it is reached from outside. */
export const upstreamOrigin = ({ host }: Pick<Upstream, 'host'>): string =>
  host.startsWith('http://') ? host : `https://${host}`

const nameOf = ({ host }: Upstream) => host.replace(/^http:\/\//, '')

/** Inside. */
export const npmrcPath = '/run/gantry/npmrc'

/** For everything inside. */
export function upstreamVariables(upstreams: readonly Upstream[]): Record<string, string> {
  if (upstreams.length === 0) return {}
  const named = upstreams.map((upstream, n) => [
    `GANTRY_UPSTREAM_${nameOf(upstream)
      .toUpperCase()
      .replaceAll(/[^A-Z0-9]/g, '_')}`,
    upstreamAddress(n),
  ])
  const rewritten = upstreams.flatMap((upstream, n) =>
    gitSpellings(upstream).map(
      (spelling) => [`url.${upstreamAddress(n)}/.insteadOf`, spelling] as const,
    ),
  )
  const git = rewritten.flatMap(([key, value], n) => [
    [`GIT_CONFIG_KEY_${n}`, key],
    [`GIT_CONFIG_VALUE_${n}`, value],
  ])
  return {
    ...(Object.fromEntries([...named, ...git]) as Record<string, string>),
    GIT_CONFIG_COUNT: String(rewritten.length),
    ...(upstreamNpmrc(upstreams) !== undefined && { npm_config_globalconfig: npmrcPath }),
  }
}

/** As people write the addresses of repositories there. Ssh has no way out at all. */
function gitSpellings(upstream: Upstream): string[] {
  const name = nameOf(upstream)
  const ssh = name.includes(':') ? [] : [`git@${name}:`, `ssh://git@${name}/`]
  return [`${upstreamOrigin(upstream)}/`, ...ssh]
}

/** undefined: no packages come from any of them. */
export function upstreamNpmrc(upstreams: readonly Upstream[]): string | undefined {
  const sources = upstreams.flatMap(({ npm }, n) => npm.map((scope) => ({ scope, n })))
  if (sources.length === 0) return undefined
  const lines = sources.map(({ scope, n }) =>
    scope === '*' ? `registry=${upstreamAddress(n)}/` : `${scope}:registry=${upstreamAddress(n)}/`,
  )
  const hosts = new Set(
    sources.map(({ n }) => new URL(upstreamOrigin(upstreams[n] as Upstream)).host),
  )
  // A registry names its files by its own address.
  const replaced = hosts.size === 1 ? [...hosts][0] : 'always'
  return [...lines, `replace-registry-host=${replaced}`, ''].join('\n')
}
