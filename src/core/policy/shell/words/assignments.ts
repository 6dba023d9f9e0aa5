import { isSecretPath } from '../../matching/paths.ts'
import { type Arg, hole, isKnown, literalArg, type Surroundings } from './arg.ts'
import { ambiguous, type Finding } from './finding.ts'
import { isProgramPath, locate } from './locate.ts'

/** Variables that make a harmless command run something else. */
const steering = new Set([
  ...[
    'LD_PRELOAD',
    'LD_AUDIT',
    'DYLD_INSERT_LIBRARIES',
    'BASH_ENV',
    'ENV',
    'SHELLOPTS',
    'PS0',
    'PS1',
    'PS4',
  ],
  ...['BASHOPTS', 'PROMPT_COMMAND', 'CDPATH', 'GIT_SSH', 'GIT_SSH_COMMAND', 'GIT_EXTERNAL_DIFF'],
  ...['GIT_ASKPASS', 'SSH_ASKPASS', 'GIT_EXEC_PATH', 'GIT_PROXY_COMMAND', 'PYTHONSTARTUP'],
  ...['PERL5OPT', 'PERL5DB', 'RUBYOPT', 'JAVA_TOOL_OPTIONS', '_JAVA_OPTIONS', 'BASH_FUNC'],
  ...[
    'LESSOPEN',
    'LESSCLOSE',
    'TAR_OPTIONS',
    'CURL_HOME',
    'WGETRC',
    'SHELL',
    'MAKEFLAGS',
    'MAKEFILES',
  ],
  ...[
    'RUSTC_WRAPPER',
    'RUSTC_WORKSPACE_WRAPPER',
    'GOFLAGS',
    'GOPROXY',
    'GONOSUMDB',
    'GIT_DIR',
    'GIT_WORK_TREE',
  ],
  ...[
    'GOPRIVATE',
    'RIPGREP_CONFIG_PATH',
    'GREP_OPTIONS',
    'PYTHONHOME',
    'PYTHONINSPECT',
    'PERL5LIB',
  ],
  ...[
    'GLOBIGNORE',
    'GIT_TEMPLATE_DIR',
    'LD_LIBRARY_PATH',
    'NODE_EXTRA_CA_CERTS',
    'EXINIT',
    'VIMINIT',
  ],
])
const secretVariable =
  /(?:^|_)(?:TOKEN|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|APIKEY|API_KEY|PRIVATE_KEY|ACCESS_KEY|CREDENTIALS?)(?:_|$)/i

export const isSecretVariable = (name: string): boolean => secretVariable.test(name)

/** Programs that others start: harmless with a value that does nothing. */
const programs = new Set(['EDITOR', 'VISUAL', 'GIT_EDITOR', 'GIT_SEQUENCE_EDITOR', 'PAGER'])
const idle = new Set(['', 'cat', 'true', ':', 'less', 'more', '/bin/true', '/bin/cat', 'echo'])

export function assignmentFindings(name: string, value: Arg | null): Finding[] {
  const text = value?.value ?? ''
  if (hidesSubstitution(text)) return [ambiguous(hidden)]
  if (name === 'SHELL' && /^\/(?:usr\/)?bin\/(?:ba)?sh$/.test(text)) return []
  const set = `"${name}" decides what other programs run`
  if (steering.has(name) || name.startsWith('GIT_CONFIG')) return [ambiguous(set)]
  if (/^(?:https?|ftp|all)_proxy$/i.test(name) && text !== '')
    return [ambiguous(`"${name}" sends requests somewhere else`)]
  if (
    /^(?:npm_config_|pip_|yarn_|cargo_|uv_|bundle_).*(?:registry|index|proxy|url|shell|source|wrapper|linker|runner|host|mirror|options)/i.test(
      name,
    )
  )
    return [ambiguous(`"${name}" decides where packages come from, or what is run`)]
  if (programs.has(name) || name.endsWith('PAGER')) {
    return value && isKnown(value) && idle.has(text) ? [] : [ambiguous(set)]
  }
  if (
    name === 'NODE_OPTIONS' &&
    /(?:^|\s)(?:-r|--(?:require|import|loader|experimental-loader))/.test(text)
  )
    return [ambiguous(set)]
  return []
}

/** Arithmetic evaluates a variable's text as an expression, and with it a substitution in an array index. */
export const hidden = 'A substitution is hidden in an array index'
export const hidesSubstitution = (text: string): boolean => {
  const at = text.indexOf('[')
  return at >= 0 && (text.includes('$(', at) || text.includes('`', at))
}

/** `NAME=value` as a plain word, for `env` and its like. */
export function assignmentOf(arg: Arg): { name: string; value: string } | null {
  const at = arg.value.indexOf('=')
  const name = arg.value.slice(0, at)
  return at > 0 && /^[A-Za-z_]\w*$/.test(name) ? { name, value: arg.value.slice(at + 1) } : null
}

/** A variable that holds a path outside may be used anywhere later. */
export function assignedOutside(
  name: string,
  arg: Arg,
  around: Surroundings,
  isInside: (path: string) => boolean,
): Finding[] {
  const texts = name === 'PATH' ? foldersIn(arg, around) : [arg]
  const outside = texts
    .flatMap((text) => locate(text, around, isInside).paths)
    .find((path) => !isInside(path) && !isProgramPath(path))
  return outside ? [ambiguous(`"${name}" is set to a path outside: ${outside}`)] : []
}

/** Set by itself, it is there for the commands that follow. Files of variables are named for one command all the time. */
export function assignedSecret(name: string, arg: Arg): Finding[] {
  const isSecret = isKnown(arg) && arg.value !== '' && isSecretPath(`/${arg.value}`)
  const handed = arg.variables.find(isSecretVariable)
  if (handed && !isSecretVariable(name)) return [ambiguous(`"${name}" is set to "${handed}"`)]
  return isSecret ? [ambiguous(`"${name}" is set to a file of secrets: ${arg.value}`)] : []
}

const installed = /^\/(?:usr|bin|sbin|opt|snap|nix|home\/linuxbrew)(?:\/|$)/

/** Programs of the system and of the user's home are there to be run. */
const foldersIn = ({ value }: Arg, { home }: Surroundings): Arg[] =>
  value
    .split(':')
    .filter((part) => part !== '' && !part.includes(hole) && !installed.test(part))
    .filter((part) => !part.startsWith('~') && !(home && part.startsWith(`${home}/`)))
    .map(literalArg)
