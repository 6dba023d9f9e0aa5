import { type Bounded, runBounded } from '../run/bounded.ts'
import { runSiteEnvironment, type Site } from '../run/site.ts'

/**
 * Over every other setting. A repository's config, hooks, filters and monitors are the repository's code; an edit that
 * somebody approved as an edit runs none of it.
 */
const safeSettings: Record<string, string> = {
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.quotePath': 'false',
  'core.pager': 'cat',
  'core.attributesFile': '/dev/null',
  'core.excludesFile': '/dev/null',
  'core.untrackedCache': 'false',
  'core.sshCommand': 'false',
  'core.alternateRefsCommand': 'false',
  'commit.gpgSign': 'false',
  'diff.autoRefreshIndex': 'false',
  'diff.ignoreSubmodules': 'dirty',
  'diff.submodule': 'short',
  'gc.auto': '0',
  'gpg.program': 'false',
  'gpg.ssh.program': 'false',
  'gpg.x509.program': 'false',
  'maintenance.auto': 'false',
  'protocol.allow': 'never',
  'status.submoduleSummary': 'false',
  'submodule.recurse': 'false',
}

const author = { NAME: 'Gantry', EMAIL: 'gantry@localhost' }

export interface GitOptions {
  gitDir: string
  workTree?: string
  /** Another index than the folder's own. */
  index?: string
  /** Objects are read and written there: with them a commit made elsewhere is the workspace's as well. */
  objects?: string
  input?: string | Buffer
  maxBytes?: number
  env?: Record<string, string>
}

export interface GitContext {
  site: Site
  attemptId: string
  deadline: number
  /** What the files of the workspace need to be read as git wrote them; none of it names a program. */
  settings: Record<string, string>
}

/** Whatever the outcome. */
export function tryGit(context: GitContext, args: string[], options: GitOptions): Promise<Bounded> {
  const { site, deadline } = context
  return runBounded('git', args, {
    environment: {
      ...runSiteEnvironment(site, context.attemptId),
      ...gitEnvironment(context, options),
    },
    owner: site.owner,
    run: site.run,
    deadline,
    ...(options.input !== undefined && { input: options.input }),
    ...(options.maxBytes !== undefined && { maxBytes: options.maxBytes }),
  })
}

/** Throws unless git succeeds. */
export async function git(
  context: GitContext,
  args: string[],
  options: GitOptions,
): Promise<string> {
  const run = await tryGit(context, args, options)
  if (run.code === 0 && !run.cut) return run.stdout.toString('utf8').trimEnd()
  throw new Error(`git ${args[0]}: ${whyFailed(run)}`)
}

export const whyFailed = ({ code, stderr, cut }: Bounded): string => {
  if (cut) return 'it printed too much'
  if (code === null) return 'it was stopped: no end in time'
  return stderr.trim().slice(0, 1000) || `exit code ${code}`
}

export function gitEnvironment(context: GitContext, options: GitOptions): Record<string, string> {
  const settings = Object.entries({ ...context.settings, ...safeSettings })
  return {
    GIT_DIR: options.gitDir,
    ...(options.workTree !== undefined && { GIT_WORK_TREE: options.workTree }),
    ...(options.index !== undefined && { GIT_INDEX_FILE: options.index }),
    ...(options.objects !== undefined && { GIT_OBJECT_DIRECTORY: options.objects }),
    ...Object.fromEntries(
      ['AUTHOR', 'COMMITTER'].flatMap((role) =>
        Object.entries(author).map(([key, value]) => [`GIT_${role}_${key}`, value]),
      ),
    ),
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], index) => [
        [`GIT_CONFIG_KEY_${index}`, key],
        [`GIT_CONFIG_VALUE_${index}`, value],
      ]),
    ),
    GIT_ALLOW_PROTOCOL: 'none',
    GIT_NO_LAZY_FETCH: '1',
    GIT_LITERAL_PATHSPECS: '1',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: 'false',
    GIT_SSH_COMMAND: 'false',
    GIT_EDITOR: ':',
    GIT_SEQUENCE_EDITOR: ':',
    GIT_PAGER: 'cat',
    ...options.env,
  }
}
