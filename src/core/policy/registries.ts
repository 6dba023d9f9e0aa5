/** The public hosts from which package managers fetch, by ecosystem. The only place that names them. */
export const registryHosts: Readonly<Record<string, readonly string[]>> = {
  npm: ['registry.npmjs.org', 'registry.yarnpkg.com'],
  deno: ['jsr.io', 'npm.jsr.io', 'deno.land'],
  python: ['pypi.org', 'files.pythonhosted.org'],
  rust: ['index.crates.io', 'static.crates.io', 'crates.io'],
  go: ['proxy.golang.org', 'sum.golang.org'],
  ruby: ['rubygems.org', 'index.rubygems.org'],
  java: ['repo.maven.apache.org', 'repo1.maven.org'],
  dotnet: ['api.nuget.org'],
  php: ['repo.packagist.org', 'packagist.org'],
  elixir: ['repo.hex.pm', 'builds.hex.pm'],
}
