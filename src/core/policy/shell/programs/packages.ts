import { hostOf, unknownHost } from '../../matching/hosts.ts'
import { type Arg, hole } from '../words/arg.ts'

/** Options that name another place than the usual registry. Package managers take any beginning of them. */
const elsewhere: [programs: string, options: string, letters: RegExp | null][] = [
  [
    'npm pnpm yarn bun npx pnpx bunx',
    'registry proxy https-proxy noproxy userconfig globalconfig cafile',
    null,
  ],
  [
    'pip pip3 pipx uv uvx poetry pdm hatch pipenv',
    'index index-url extra-index-url find-links trusted-host proxy default-index index-strategy channel pypi-mirror',
    /^-(?:i|f)/,
  ],
  ['cargo', 'registry index git', null],
  ['conda mamba', 'channel index index-url proxy trusted-host', /^-c/],
  ['gem bundle bundler', 'source http-proxy clear-sources github gist git', /^-[sp]/],
  ['composer', 'repository repository-url', null],
  ['dotnet nuget', 'source add-source', /^-s$/],
  [
    'mvn mvnw gradle gradlew',
    '',
    /^-D(?:altDeploymentRepository|remoteRepositories|https?\.proxy)/,
  ],
  ['luarocks', 'server only-server', null],
  ['opam', 'repositories', null],
]

const table = new Map(
  elsewhere.flatMap(([programs, options, letters]) =>
    programs.split(' ').map((name) => [name, { options: options.split(' '), letters }] as const),
  ),
)

/** Where the usual modules of Go are. */
const goHosts =
  /^(?:github\.com|gitlab\.com|bitbucket\.org|golang\.org|google\.golang\.org|cloud\.google\.com|gopkg\.in|go\.uber\.org|k8s\.io|sigs\.k8s\.io|honnef\.co|mvdan\.cc|go\.opentelemetry\.io|gorm\.io|rsc\.io)$/

/** The hosts that a package manager reaches besides its usual registry; null: none, as far as its words tell. */
export function packageHosts(program: string, args: readonly Arg[]): string[] | null {
  if (program === 'go') return goModules(args)
  const known = table.get(program)
  if (!known) return null
  const installs = args.some(({ value }) => installing.test(value))
  const hosts = args.flatMap(({ value }, index) => {
    const name = value.startsWith('--') ? (value.slice(2).split('=')[0] ?? '') : ''
    const option =
      (name !== '' && known.options.some((one) => one !== '' && one.startsWith(name))) ||
      (known.letters?.test(value) ?? false)
    if (option)
      return [
        addressOf(
          value.includes('=')
            ? value.slice(value.indexOf('=') + 1)
            : (args[index + 1]?.value ?? ''),
        ),
      ]
    return value.startsWith('-') ? [] : remoteOf(value, program, installs)
  })
  return hosts.length > 0 ? [...new Set(hosts)] : null
}

const addressOf = (text: string): string =>
  text.includes(hole) ? unknownHost : (hostOf(text) ?? unknownHost)

/** `git+https://…`, `https://…/x.tgz`, `github:user/repo`, `user/repo` */
function remoteOf(value: string, program: string, installs: boolean): string[] {
  const url =
    /^(?:[\w.-]+ ?@ ?)?(?:git\+|hg\+|svn\+|bzr\+)?((?:https?|ssh|git|ftp):\/\/.*)$/is.exec(
      value,
    )?.[1]
  if (url !== undefined) return [addressOf(url)]
  if (/^(?:github|gitlab|bitbucket|gist):/i.test(value)) return [unknownHost]
  // `npm i test/x` and `npm i a@test/x`: no folder to npm, which would begin with a dot.
  if (installs && nodeManagers.test(program) && fromRepository.test(value)) return [unknownHost]
  if (/^(?:[\w.-]+@)?[\w-]+\.[\w.-]+:[^/]/.test(value)) return [unknownHost]
  const short =
    /^(?:npm|pnpm|yarn|bun|npx)$/.test(program) && /^[\w-][\w.-]*\/[\w.-]+(?:#.*)?$/.test(value)
  return short &&
    !/\.(?:[cm]?[jt]sx?|json|md|css|html|vue|svelte|snap)$/.test(value) &&
    !isFolder(value)
    ? [unknownHost]
    : []
}

const nodeManagers = /^(?:npm|pnpm|yarn|bun)$/
const installing =
  /^(?:i|in|ins|inst|insta|instal|install|add|a|it|install-test|update|up|upgrade)$/
const fromRepository =
  /^(?:@?[\w./-]{1,100}@)?(?:(?:github|gitlab|bitbucket|gist):|[\w-][\w.-]{0,99}\/[\w.-]{1,100}(?:#|$))/i

const isFolder = (value: string): boolean =>
  /^(?:src|test|tests|packages|apps|lib|libs|dist|build|scripts|docs|e2e|spec|examples|tools|bench|server|client|web|api|app|public|components|pages|services|node_modules)\//.test(
    value,
  )

/** `go get example.com/x@latest` */
function goModules(args: readonly Arg[]): string[] | null {
  if (!/^(?:get|install|run|mod)$/.test(args[0]?.value ?? '')) return null
  const hosts = args.slice(1).flatMap(({ value }) => {
    const host = /^([\w-]+(?:\.[\w-]+)+)\//.exec(value)?.[1]
    return host && !goHosts.test(host) ? [host.toLowerCase()] : []
  })
  return hosts.length > 0 ? hosts : null
}
