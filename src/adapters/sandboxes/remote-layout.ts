import type { Boot, Layout } from '../../contract/manifest.ts'

/**
 * The literal paths of the agent contract, the same on every remote provider. The workspace is not inside the home: a
 * folder whose parent OpenCode's user may write to could be swapped for a link while the agent, as root, works in it.
 */
export const remoteLayout: Layout = {
  home: '/home/user',
  workspace: '/workspace',
  configDir: '/opt/gantry/config',
  envFile: '/tmp/.proliferate_env.json',
  hostname: '0.0.0.0',
  port: 4096,
}

/**
 * What a template or image must have, beside git. The agent runs as root, everything that the model does as the user.
 */
export const remoteImage = {
  user: 'user',
  uid: 1000,
  gid: 1000,
  node: '/opt/gantry/bin/node',
  agent: '/opt/gantry/agent.mjs',
  /** Takes out of a copy of the sandbox what a snapshot must not have, and looks for secrets in the rest. */
  scrub: '/opt/gantry/scrub.mjs',
  opencode: '/opt/gantry/bin/opencode',
  /** Folders with ripgrep; put first on OpenCode's PATH. */
  path: ['/opt/gantry/bin'],
  /** Root's alone: the agent's spool and memory. */
  stateDir: '/var/lib/gantry',
} as const

interface RemoteAgent {
  gatewayUrl: string
  sessionId: string
  generation: number
  token: string
  /** The deployment's label. */
  mark: string
}

/** What the agent is given on its standard input. */
export function remoteLayoutBoot({
  gatewayUrl,
  sessionId,
  generation,
  token,
  mark,
}: RemoteAgent): Boot {
  const { stateDir, opencode, path, uid, gid } = remoteImage
  return {
    gatewayUrl,
    sessionId,
    generation,
    token,
    stateDir,
    opencode,
    path: [...path],
    uid,
    gid,
    mark,
  }
}
