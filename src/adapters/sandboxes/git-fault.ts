import type { SandboxFault } from '../../core/ports.ts'

interface GitFault {
  fault: SandboxFault
  /** What to do; null: git's own words say it. */
  hint: string | null
}

/** What git says (in English: its language is set), and what whoever made the session can do about it. */
const mistakes: readonly [RegExp, string][] = [
  [
    /could not resolve host/i,
    "Check the spelling of the repository's host. If it is right, the sandbox cannot look up names: check its network, then retry the session",
  ],
  [
    /authentication failed|could not read (?:username|password)|invalid username or (?:token|password)|returned error: 40[13]\b|permission denied \((?:publickey|password)|host key verification failed/i,
    'Check the repository URL and its token: it is private or does not exist, and the token is missing, wrong, expired or may not read it',
  ],
  [
    /repository .*not found|does not exist|does not appear to be a git repository|returned error: 404\b|not valid: is this a git repository/i,
    'Check the repository URL: there is no such repository, or the token may not see it',
  ],
  [
    /did not match any file|invalid reference|remote branch .* not found|not a tree|unknown revision|bad object/i,
    'Check the ref: the repository has no such branch, tag or commit',
  ],
  [
    /certificate|unsupported protocol|transport .* not allowed|port number was not a decimal|url (?:rejected|using bad)|bad\/illegal format/i,
    'Check the repository URL: its host cannot be spoken to in this way',
  ],
]

/** Of the machine that clones. */
const ours =
  /no space left|disk quota|read-only file system|could not create|unable to create|cannot (?:fork|allocate)|out of memory|unable to (?:find remote )?fork|cannot exec/i

/**
 * null: the provider's own. A name that cannot be resolved counts as a typo: it fails one session, which can be
 * retried.
 */
export function gitFault(words: string): GitFault | null {
  // A git server whose disk is full, or that says so, is not the machine that clones.
  if (ours.test(words.replaceAll(/^(?:remote:|fatal: remote error:).*$/gm, ''))) return null
  const known = mistakes.find(([pattern]) => pattern.test(words))
  return known ? { fault: 'user', hint: known[1] } : { fault: 'repository', hint: null }
}

/** Of a launch in a remote sandbox that has ended: its log has git's words. */
function launchFault(reason: string): GitFault | null {
  return /Cannot make the workspace: git (?:clone|checkout) failed/.test(reason)
    ? gitFault(reason)
    : null
}

/** Why a remote sandbox has ended, and whose fault it was. */
export function gitFaultOfEnd(reason: string): { reason: string; fault: SandboxFault | null } {
  const found = launchFault(reason)
  return { reason: withHint(reason, found), fault: found?.fault ?? null }
}

export const withHint = (reason: string, fault: GitFault | null): string =>
  fault?.hint ? `${reason}\n${fault.hint}` : reason
