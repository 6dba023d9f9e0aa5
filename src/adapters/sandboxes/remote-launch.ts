import { AppError } from '../../contract/error.ts'
import type { SandboxSpec } from '../../core/ports.ts'
import { remoteLayoutBoot, remoteImage, remoteLayout } from './remote-layout.ts'

const { user, uid, gid, node, agent, stateDir, path } = remoteImage
const { home, workspace, configDir } = remoteLayout

/** How the launch ended before it became the agent. */
export const launchCodes = { noInput: 70, alreadyLaunched: 71 } as const

/**
 * Becomes the agent, as root in a new sandbox. Repeatable: only the first one that gets its input goes on, so that
 * there is one agent whatever was asked twice. Nothing that it is given is in an argument, in the environment or in a
 * file: git reads the credential once from a pipe, the agent its boot document from another, both kept by bash itself.
 *
 * E2B gives the image's user sudo and write access to /usr/local whatever the template says, so that is taken back.
 */
export const launchScript = `set -u
umask 077
state=${stateDir}
for field in processes source url ref origin name token boot; do
  IFS= read -r -t 60 "$field" || exit ${launchCodes.noInput}
done
mkdir -p "$state" && chmod 700 "$state" || exit ${launchCodes.noInput}
mkdir "$state/launch" 2>/dev/null || exit ${launchCodes.alreadyLaunched}
started() { local all; read -r all < "/proc/$1/stat"; set -- \${all##*) }; echo "\${20}"; }
echo "$$ $(started $$)" > "$state/launch/process"
echo launched
exec >> "$state/agent.log" 2>&1 </dev/null
# The agent writes settings that OpenCode's user must be able to read.
umask 022
fail() { echo "$1"; exit 1; }
as_user() { setpriv --reuid ${uid} --regid ${gid} --init-groups --inh-caps=-all "$@"; }

[ "$(id -u ${user} 2>/dev/null)" = ${uid} ] || fail 'The image has no user "${user}" with the id ${uid}'
for tool in sudo su doas pkexec; do
  found=$(command -v "$tool") && chmod 0700 "$(readlink -f "$found")" 2>/dev/null
done
as_user sudo -n true 2>/dev/null && fail 'The user of the sandbox may become root'
find /usr/local /code -perm /022 ! -type l -exec chmod go-w {} + 2>/dev/null
search=${path.join(':')}:/usr/bin:/bin:/usr/sbin:/sbin
as_user test -w /usr/local/bin || search=${path.join(':')}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin

mkdir -p ${home} ${workspace} ${configDir} && chmod 755 ${configDir} || fail 'Cannot make the folders'
chown ${uid}:${gid} ${home} ${workspace} && chmod 700 ${home} && chmod 755 ${workspace}
as_user sh -c '[ -e ${home}/.gitconfig ] ||
  printf "[user]\\n  name = Gantry agent\\n  email = agent@gantry.local\\n" > ${home}/.gitconfig'

cat > "$state/gitconfig" <<'END'
[safe]
  directory = *
[core]
  hooksPath = /dev/null
  fsmonitor = false
[protocol]
  allow = never
[protocol "https"]
  allow = always
[protocol "http"]
  allow = always
[submodule]
  recurse = false
[user]
  name = Gantry
  email = gantry@localhost
END
run_git() {
  env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 GIT_CONFIG_NOSYSTEM=1 \\
    GIT_CONFIG_GLOBAL="$state/gitconfig" GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=/bin/false \\
    timeout -k 5 180 git "$@"
}
inside() { run_git -C ${workspace} "$@"; }
case $source in
clone)
  exec 9< <(printf 'username=%s\\npassword=%s\\n' "$name" "$token")
  wait $!
  helper='!f() { test "$1" = get && cat <&9; }; f'
  bare=
  [ -n "$ref" ] && bare=--no-checkout
  # The helper is bound to the origin, so that a redirect elsewhere is not told the credential.
  run_git -c "credential.$origin.helper=\${token:+$helper}" clone --quiet --template= $bare -- "$url" ${workspace} ||
    fail 'Cannot make the workspace: git clone failed'
  exec 9<&-
  [ -z "$ref" ] || inside checkout --quiet "$ref" -- || fail 'Cannot make the workspace: git checkout failed'
  ;;
empty)
  run_git init --quiet --template= --initial-branch=main -- ${workspace} || fail 'Cannot make the workspace'
  ;;
esac
unset token name
if [ "$source" != kept ]; then
  inside rev-parse --quiet --verify HEAD > /dev/null ||
    inside commit --quiet --allow-empty --message 'Initial commit' || fail 'Cannot make the workspace'
  chown -hR ${uid}:${gid} ${workspace}
fi

[ -z "$processes" ] || ulimit -u "$processes"
: > "$state/launch/booted"
exec 9< <(printf '%s\\n' "$boot")
wait $!
exec env -i PATH="$search" HOME=/root LANG=C.UTF-8 ${node} ${agent} <&9 9<&-
`

/** Says in its first line: none, preparing, running or exited; then, of what has ended, its last words. */
export const statusScript = `state=${stateDir}
[ -e "$state/launch" ] || { echo none; exit 0; }
[ -e "$state/launch/process" ] || { echo preparing; exit 0; }
read -r pid begun < "$state/launch/process"
now() { local all; read -r all < "/proc/$1/stat" || return; set -- \${all##*) }; [ "$1" = Z ] || echo "\${20}"; }
if [ "$(now "$pid" 2>/dev/null)" = "$begun" ]; then
  [ -e "$state/launch/booted" ] && echo running || echo preparing
  exit 0
fi
echo exited
tail -c 2000 "$state/agent.log"
`

/** The launch's input: one line for each of its names. */
export function remoteLaunchInput(spec: SandboxSpec, mark: string): string {
  const source = spec.snapshotId === null ? parseRemoteSource(spec.repository) : null
  const boot = remoteLayoutBoot({ ...spec, mark })
  const lines = [
    spec.limits.processes === null ? '' : String(spec.limits.processes),
    spec.snapshotId !== null ? 'kept' : source === null ? 'empty' : 'clone',
    source?.url ?? '',
    source?.ref ?? '',
    source?.origin ?? '',
    source?.user ?? '',
    source?.token ?? '',
    JSON.stringify(boot),
  ]
  return `${lines.join('\n')}\n`
}

interface RemoteSource {
  url: string
  ref: string
  origin: string
  user: string
  token: string
}

/** Takes a credential out of the URL, so that it cannot reach .git/config, and refuses what git must not be given. */
function parseRemoteSource(repository: SandboxSpec['repository']): RemoteSource | null {
  if (repository === null) return null
  const { url, ref, token } = repository
  if (ref !== null && (ref.startsWith('-') || /[\p{Cc}\s]/u.test(ref)))
    throw refusal(`Cannot use ref ${JSON.stringify(ref)}`)
  if (!URL.canParse(url)) throw refusal('Cannot use the repository URL: give an https:// URL')
  const parsed = new URL(url)
  const isLoopback = ['127.0.0.1', 'localhost', '[::1]'].includes(parsed.hostname)
  if (parsed.protocol !== 'https:' && !(parsed.protocol === 'http:' && isLoopback))
    throw refusal(`Cannot clone over "${parsed.protocol}//" in a remote sandbox: use https`)
  const secret = token ?? decodeURIComponent(parsed.password)
  const name = decodeURIComponent(parsed.username) || 'x-access-token'
  if (/\p{Cc}/u.test(secret + name))
    throw refusal('Cannot use the repository token: it has control characters')
  parsed.username = ''
  parsed.password = ''
  return { url: parsed.href, ref: ref ?? '', origin: parsed.origin, user: name, token: secret }
}

const refusal = (message: string) => new AppError('unprocessable', message)
