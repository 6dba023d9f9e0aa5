import { resolve, sep } from 'node:path'
import type { Run } from '../../enclosure/reader.ts'
import type { Owner } from '../../workspace/folder.ts'

/** The folders, the user and the search path with which operations run. */
export interface Site {
  workspace: string
  home: string
  /** The sandbox's user, where the agent is root; undefined: the agent's own. */
  owner: Owner | undefined
  /** The search path of what is run. */
  path: string
  /** In the environment of every process, so that what is left behind can be found. */
  marks: Record<string, string>
  /** Runs git behind walls like OpenCode's. Absent: as the sandbox's user alone. */
  run?: Run
}

export const attemptMark = 'GANTRY_ATTEMPT'

/** Nothing is inherited: what the agent knows stays with the agent. */
export const runSiteEnvironment = (site: Site, attemptId: string): Record<string, string> => ({
  PATH: site.path,
  HOME: site.home,
  LANG: 'C.UTF-8',
  ...site.marks,
  [attemptMark]: attemptId,
})

/** As it is spelled: inside the walls it is entered as the sandbox's user, who may go wherever it leads. */
export function runSiteFolder(root: string, cwd = '.'): string {
  const folder = resolve(root, cwd)
  if (folder === root || folder.startsWith(`${root}${sep}`)) return folder
  throw new Error(`Cannot run in "${cwd}": it is outside the workspace`)
}

/** Relative to the workspace, as git spells it. It is a spelling only: no file is looked at. */
export function pathInRunSite(workspace: string, target: string): string {
  const path = resolve(workspace, target)
  const names = path.slice(workspace.length + 1).split(sep)
  const isInside = path.startsWith(`${workspace}${sep}`)
  if (!isInside) throw new Error(`Cannot change "${target}": it is outside the workspace`)
  if (names.some((name) => name.toLowerCase() === '.git'))
    throw new Error(`Cannot change "${target}": it belongs to git itself`)
  return names.join('/')
}
