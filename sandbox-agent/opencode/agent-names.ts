// Knows which of OpenCode's agents works in which of OpenCode's sessions; a subagent has a session of its own below its
// parent's. It learns this from OpenCode's events. The agent asks it for each question of the gate, because policies
// may differ by agent and subagent.

import type { OpenCodeEvent } from './opencode.ts'

interface Info {
  id?: string
  sessionID?: string
  parentID?: string
  agent?: string
}

export class AgentNames {
  readonly #agents = new Map<string, string>()
  readonly #parents = new Map<string, string>()

  hear({ type, properties }: OpenCodeEvent): void {
    const info = properties['info'] as Info | undefined
    if (!info) return
    // A session that an earlier OpenCode has made is only said to be updated when it is taken up again.
    const isSession = type === 'session.created' || type === 'session.updated'
    const id = isSession ? info.id : type === 'message.updated' ? info.sessionID : undefined
    if (id === undefined) return
    if (isSession && info.parentID) this.#parents.set(id, info.parentID)
    if (info.agent) this.#agents.set(id, info.agent)
  }

  /** Of the agent that the user talks to, and of the sub-agent that it has sent, if it is one. */
  of(sessionID: string): { agent?: string; subagent?: string } {
    let root = sessionID
    for (let parent = root; parent !== undefined; parent = this.#parents.get(parent) as string)
      root = parent
    const agent = this.#agents.get(root)
    const own = root === sessionID ? undefined : (this.#agents.get(sessionID) ?? 'unknown')
    return { ...(agent && { agent }), ...(own && { subagent: own }) }
  }
}
