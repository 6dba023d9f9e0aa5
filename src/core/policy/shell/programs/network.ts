import { hostOf, unknownHost } from '../../matching/hosts.ts'
import { type Arg, hole, isKnown } from '../words/arg.ts'
import { ambiguous, type Finding } from '../words/finding.ts'
import { toolArgHosts } from '../known/tool-args.ts'
import { packageHosts } from './packages.ts'
import { hasFlag, optionSet, type Parsed, parseOptions, valuesOf } from '../words/options.ts'

interface NetworkUse {
  hosts: string[]
  findings: Finding[]
}

const fetchers = new Set('curl wget http https xh aria2c httpie lynx w3m links'.split(' '))
const fetchValues = optionSet(
  'H d o X u A e b c F T w m x K E r y Y z header data data-raw data-binary data-urlencode json output request user user-agent referer cookie cookie-jar form upload-file write-out max-time proxy config cert key cacert retry connect-timeout resolve connect-to interface O P U post-data post-file output-document output-file directory-prefix timeout tries limit-rate range url socks5 preproxy',
)
/** The address that is named is then not the one that is reached. */
const rerouting = [
  'x',
  'K',
  '--proxy',
  '--config',
  '--resolve',
  '--connect-to',
  '--proxy1.0',
  '--socks4',
  '--socks4a',
  '--socks5',
  '--socks5-hostname',
  '--preproxy',
  '--unix-socket',
  '--abstract-unix-socket',
]
/** Options that mean something harmless to curl. */
const reroutingOf: Record<string, readonly string[]> = {
  wget: ['e', 'i', 'H', '--execute', '--input-file', '--use-askpass', '--span-hosts'],
  aria2c: ['i', '--input-file', '--on-download-complete', '--on-download-start'],
  lynx: ['exec', '--exec', '--cfg'],
}

/** Programs whose use of the network is known by their name. */
export const isNetworkProgram = (program: string): boolean =>
  [fetchers, remoteShells, copiers, lookups, clouds].some((names) => names.has(program))

const remoteShells = new Set('ssh mosh sftp telnet ftp lftp tftp nc ncat netcat'.split(' '))
const remoteValues = optionSet('i p l o F J L R D b c E e I m O Q S W w P u')
const copiers = new Set(['scp', 'rsync', 'rclone'])
const lookups = new Set('ping ping6 traceroute dig nslookup host whois nmap mtr'.split(' '))
/** They reach services whose addresses are in their settings. */
const clouds = new Set(
  'gh hub glab aws gcloud gsutil az kubectl helm heroku vercel netlify fly flyctl firebase doctl stripe sshfs socat terraform tofu pulumi ansible ansible-playbook mail mailx mutt sendmail msmtp swaks xdg-open'.split(
    ' ',
  ),
)

/** How a command uses the network by itself; null if it does not, as far as its name tells. */
export function networkUse(program: string, args: readonly Arg[]): NetworkUse | null {
  if (fetchers.has(program)) return fetchUse(program, parseOptions(args, fetchValues))
  if (remoteShells.has(program)) return remoteUse(args)
  if (copiers.has(program)) return copyUse(program, args)
  if (lookups.has(program)) {
    const { operands } = parseOptions(args, optionSet('c W i t s m p'))
    return { hosts: operands.map(hostOfArg), findings: [] }
  }
  if (program === 'getent') return getentUse(args)
  if (/^(?:g|bsd)?tar$/.test(program)) return archiveUse(args)
  if (databases.has(program)) return databaseUse(program, args)
  const packages = packageHosts(program, args)
  if (packages) return { hosts: packages, findings: [] }
  if (clouds.has(program))
    return isLocalCloudUse(program, args) ? null : { hosts: [unknownHost], findings: [] }
  if (program === 'openssl' && args[0]?.value === 's_client')
    return { hosts: [unknownHost], findings: [] }
  return serviceUse(program, args)
}

const formatting = /^(?:-(?:check|recursive|no-color|list=\w+|write=\w+)|[\w./][\w./-]*)$/
const chartFlags =
  /^--(?:debug|include-crds|skip-crds|skip-tests|no-hooks|release-name|strict|quiet|with-subcharts)$/
const chartValues =
  /^(?:-[fnsa]|--(?:values|namespace|show-only|set|set-string|kube-version|api-versions|output-dir))$/
const chartFolder = /^\.{1,2}(?:\/[\w./-]*)?$/

/** These forms alone change or print files of the workspace: `terraform fmt`, `helm template ./chart`. */
function isLocalCloudUse(program: string, args: readonly Arg[]): boolean {
  const [word = '', ...rest] = args.map(({ value }) => value)
  if (args.some((arg) => !isKnown(arg) || arg.value.includes('://'))) return false
  if (/^(?:terraform|tofu)$/.test(program))
    return word === 'fmt' && rest.every((text) => formatting.test(text))
  if (program !== 'helm' || !/^(?:template|lint)$/.test(word)) return false
  const isValue = (at: number) => chartValues.test(rest[at - 1] ?? '')
  const own = rest.filter((_, at) => !isValue(at))
  const operands = own.filter((text) => !text.startsWith('-'))
  const options = own.filter((text) => text.startsWith('-'))
  const isNamed = word === 'template' && operands.length === 2 && /^[\w-]+$/.test(operands[0] ?? '')
  return (
    (operands.length === 1 || isNamed) &&
    chartFolder.test(operands.at(-1) ?? '') &&
    options.every((text) => chartFlags.test(text) || chartValues.test(text.split('=')[0] ?? ''))
  )
}

/** They read an address like a file. */
const addressReaders = new Set(['pandoc', 'xmllint', 'xmlstarlet', 'xsltproc'])
/** Words with which a tool fetches what the next words name. */
const fetchingWords: Record<string, RegExp> = {
  trivy: /^(?:image|i|repo|repository|k8s|kubernetes|server|client|vm)$/,
  semgrep: /^(?:--config=)?(?:auto|[prs]\/.*)$/,
}

function serviceUse(program: string, args: readonly Arg[]): NetworkUse | null {
  if (program === 'playwright') return browserUse(args)
  const words = Object.hasOwn(fetchingWords, program) ? fetchingWords[program] : undefined
  if (words && args.some(({ value }) => words.test(value)))
    return { hosts: [unknownHost], findings: [] }
  if (!addressReaders.has(program)) return null
  const hosts = [...new Set(args.flatMap(({ value }) => toolArgHosts(value)))]
  return hosts.length > 0 ? { hosts, findings: [] } : null
}

const browserWords = /^(?:open|codegen|screenshot|pdf|cr|ff|wk)$/
const isPage =
  /^(?:about|data|file):|^(?:\.{1,2}\/){0,9}(?:[\w-]{1,60}\/){0,20}[\w.-]{1,100}\.html?$/i
const browserValues = optionSet(
  'b o browser channel color-scheme device geolocation lang output proxy-server proxy-bypass save-har save-har-glob save-storage load-storage target test-id-attribute timeout timezone user-agent user-data-dir viewport-size wait-for-selector wait-for-timeout host port paper-format',
)

/** `playwright open a.example`: it needs no scheme. Pages of the workspace and the machine itself are no other place. */
function browserUse(args: readonly Arg[]): NetworkUse | null {
  const parsed = parseOptions(args, browserValues)
  const [word, ...pages] = parsed.operands
  if (!browserWords.test(word?.value ?? '')) return null
  // What comes behind it is the name of a picture.
  const hosts = (/^(?:screenshot|pdf)$/.test(word?.value ?? '') ? pages.slice(0, 1) : pages)
    .filter(({ value }) => !isPage.test(value))
    .map(({ value }) => hostOfAddress(value))
    .filter((host) => !isLocal(host))
  const findings = hasFlag(parsed, '--proxy-server')
    ? [ambiguous('An option sends the request somewhere else')]
    : []
  return hosts.length + findings.length > 0 ? { hosts, findings } : null
}

/** `tar -f host:x` connects. */
function archiveUse(args: readonly Arg[]): NetworkUse | null {
  const [first] = args
  const cluster = /^[a-zA-Z]+$/.test(first?.value ?? '') ? 1 : 0
  const hosts = args.flatMap(({ value }, index) => {
    const before = args[index - 1]?.value ?? ''
    const isFile = /^-[a-zA-Z]*f$|^--file$/.test(before) || (cluster === 1 && index === 1)
    const name = isFile ? value : (/^(?:--file=|-[a-zA-Z]*f)(.+)$/s.exec(value)?.[1] ?? '')
    const host = /^([^/]+):/.exec(name)?.[1]
    return host === undefined ? [] : [hostOfText(host.replace(/^[\w.-]+@/, ''))]
  })
  const isLocalOnly = args.some(({ value }) => value === '--force-local')
  return hosts.length > 0 && !isLocalOnly ? { hosts, findings: [] } : null
}

/** A name that is looked up tells its name server what it says. */
function getentUse([base, ...names]: readonly Arg[]): NetworkUse | null {
  if (!/^(?:ahosts|ahostsv4|ahostsv6|hosts|netgroup)$/.test(base?.value ?? 'hosts')) return null
  return names.length === 0 ? null : { hosts: names.map(hostOfArg), findings: [] }
}

const databases = new Set(
  'psql pg_dump pg_restore createdb dropdb mysql mysqldump mariadb redis-cli mongosh mongo'.split(
    ' ',
  ),
)
const databaseValues = optionSet(
  'h U p d P u D f c e n a o v host user username port dbname database file command execute',
)

/** By an option or an address; without either it is the machine's own. */
function databaseUse(program: string, args: readonly Arg[]): NetworkUse | null {
  const parsed = parseOptions(args, databaseValues)
  const glued = args.flatMap(({ value }) => /^-h(.+)$/s.exec(value)?.[1] ?? [])
  const written = args.flatMap(({ value }) =>
    /^(?:[\w+-]+=)?([a-z][\w+.-]*:\/\/.*)$/is.test(value) ? [value.replace(/^--?[\w-]+=/, '')] : [],
  )
  const named = args.flatMap(({ value }) => /(?:^|\s)host(?:addr)?=([^\s]+)/.exec(value)?.[1] ?? [])
  const asked = valuesOf(parsed, 'h', 'host').map(({ value }) => value)
  // Shortened, it may take its value from the next word.
  if (args.some(({ value }) => /^--hos?(?:=|$)/.test(value))) asked.push(hole)
  // `mongosh a.example:27017/x`; without a slash or a dot it is the name of a database.
  if (program.startsWith('mongo'))
    for (const { value } of parsed.operands)
      if (/[.:/]/.test(value) && !/:\/\/|\.[cm]?js$/.test(value)) asked.push(value)
  const hosts = [...asked, ...glued, ...named].map(hostOfText)
  const all = [...hosts, ...written.map(hostOfAddress)].filter((host) => !isLocal(host))
  return all.length > 0 ? { hosts: [...new Set(all)], findings: [] } : null
}
/** A path is a socket. */
const isLocal = (host: string) => /^(?:localhost|127\..*|::1|\[::1\])$/.test(host)

const hostOfArg = (arg: Arg): string => hostOfText(arg.value)
const hostOfText = (text: string): string =>
  text.slice(0, text.search(/[/?#]|$/)).includes(hole) || text.startsWith(hole)
    ? unknownHost
    : (hostOf(text) ?? unknownHost)

const otherScheme = /^(?!https?:|wss?:)[a-z][a-z0-9+.-]{0,20}:\/\//i

function fetchUse(program: string, parsed: Parsed): NetworkUse {
  const addresses = [...parsed.operands, ...valuesOf(parsed, 'url')].filter(
    ({ value }) =>
      !/^(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)$/.test(value) && !/^file:/i.test(value),
  )
  const hosts = addresses.map(({ value }) => hostOfAddress(value))
  const own = Object.hasOwn(reroutingOf, program) ? (reroutingOf[program] ?? []) : []
  const speaksOther = addresses.some(({ value }) => otherScheme.test(value))
  const findings = [
    ...(hasFlag(parsed, ...rerouting, ...own)
      ? [ambiguous('An option sends the request somewhere else')]
      : []),
    // `gopher://localhost:6379/…` says anything to any service.
    ...(speaksOther ? [ambiguous('It speaks another protocol than HTTP')] : []),
  ]
  return { hosts: hosts.length > 0 ? hosts : [unknownHost], findings }
}

/** A variable in the path or the query does not change the host. */
function hostOfAddress(value: string): string {
  const rest = value.replace(/^[a-z][a-z0-9+.-]*:\/\//i, '')
  const authority = rest.slice(0, rest.search(/[/?#]|$/))
  return authority.includes(hole) || authority.includes('{')
    ? unknownHost
    : hostOfText(value.replaceAll(hole, ''))
}

function remoteUse(args: readonly Arg[]): NetworkUse {
  const parsed = parseOptions(args, remoteValues, true)
  const [first] = parsed.operands
  const jumps = valuesOf(parsed, 'o', 'J', 'F').length > 0
  const host = first && isKnown(first) ? hostOf(first.value.replace(/^[\w.-]+@/, '')) : null
  const executes = hasFlag(parsed, 'e', 'c') && !hasFlag(parsed, 'i')
  const findings =
    jumps || executes ? [ambiguous('An option changes where it connects or what it runs')] : []
  return { hosts: [host ?? unknownHost], findings }
}

function copyUse(program: string, args: readonly Arg[]): NetworkUse | null {
  const parsed = parseOptions(
    args,
    optionSet('e rsh i P p F o l c S J rsync-path exclude include f'),
  )
  const remote = parsed.operands.filter(({ value }) => /^[^/]*:/.test(value))
  const findings =
    hasFlag(parsed, 'e', '--rsh', '--rsync-path') || valuesOf(parsed, 'o', 'J', 'S').length > 0
      ? [ambiguous('An option says what is run for the connection')]
      : []
  if (remote.length === 0 && program === 'rsync')
    return findings.length > 0 ? { hosts: [], findings } : null
  const hosts = remote.map(({ value }) =>
    hostOfText(
      /^[a-z]+:\/\//.test(value) ? value : (value.split(':')[0] ?? '').replace(/^[\w.-]+@/, ''),
    ),
  )
  return { hosts: hosts.length > 0 ? hosts : [unknownHost], findings }
}
