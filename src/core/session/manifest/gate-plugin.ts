import { idAlphabet } from '../../../contract/ids.ts'

interface GatePlugin {
  marker: string
  /** HOME of what bash starts. OpenCode's own is a folder that it cannot write, since it loads code from there. */
  home: string
  /** Per tool id of ours: which arguments are truly required. */
  required: Record<string, string[]>
  /** Per skill of the session: its folder. */
  skills?: Record<string, string>
}

/**
 * The gate inside OpenCode: every tool asks first, and only an allow lets it run. The plugin proves that it is loaded by
 * registering the marker tool, whose name no repository can guess, and hides that tool from every agent and sub-agent.
 */
export function gatePluginText({ marker, home, required, skills = {} }: GatePlugin): string {
  return `// Written by Gantry. Changes are undone before the next turn.
const marker = ${JSON.stringify(marker)}
const home = ${JSON.stringify(home)}
const required = ${JSON.stringify(required)}
const alphabet = ${JSON.stringify(idAlphabet)}
const pollTimeoutMs = 60_000
const triesWithoutAnswer = 4

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const newAskId = () => 'ask_' + Array.from(crypto.getRandomValues(new Uint8Array(20)), (byte) => alphabet[byte % 32]).join('')

async function post(question) {
  const response = await fetch(process.env.PROLIFERATE_GATEWAY_URL + '/gate', {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.SANDBOX_MCP_AUTH_TOKEN },
    body: JSON.stringify(question),
    signal: AbortSignal.timeout(pollTimeoutMs),
  })
  const body = await response.json()
  if (response.status === 202) return undefined
  if (response.ok) return body
  return { decision: 'deny', reason: 'The gate answered ' + response.status }
}

async function ask(question) {
  let failures = 0
  while (true) {
    try {
      const answer = await post(question)
      failures = 0
      if (answer !== undefined) return answer
    } catch {
      failures += 1
      if (failures >= triesWithoutAnswer) return { decision: 'deny', reason: 'The gate cannot be reached' }
      await sleep(100 * 2 ** failures)
    }
  }
}

function demandAllow(tool, answer) {
  if (answer?.decision === 'allow') return
  const next = 'Do it another way inside the workspace, or say in your answer what you need and why'
  throw new Error('Gantry refused "' + tool + '": ' + (answer?.reason || 'no reason given') + '. ' + next)
}

export default async () => ({
  tool: {
    [marker]: {
      description: 'Not for use',
      args: {},
      async execute() {
        return 'The gate is loaded'
      },
    },
  },
  async config(config) {
    config.permission = { ...config.permission, [marker]: 'deny' }
  },
  async 'tool.definition'(input, output) {
    const names = required[input.toolID]
    if (names && output.jsonSchema) output.jsonSchema.required = names
  },
  async 'shell.env'(_input, output) {
    Object.assign(output.env, {
      HOME: home,
      XDG_CONFIG_HOME: home + '/.config',
      SANDBOX_MCP_AUTH_TOKEN: '',
      OPENCODE_SERVER_PASSWORD: '',
    })
  },
  async 'tool.execute.before'(input, output) {
    const askId = newAskId()
    const question = { askId, tool: input.tool, callId: input.callID ?? '', sessionID: input.sessionID, input: output.args ?? null }
    demandAllow(input.tool, await ask(question))
    // OpenCode does not stop a hook when a turn is aborted: what was allowed before may be withdrawn by now.
    demandAllow(input.tool, await ask({ ...question, confirm: true }))
  },${Object.keys(skills).length > 0 ? afterSkill(skills) : ''}
})
`
}

/**
 * OpenCode also loads skills that lie in the workspace. Of two with one name it takes whichever it has read last, so a file
 * that anybody can write could pass for the version that the session has pinned.
 */
const afterSkill = (folders: Record<string, string>) => `
  async 'tool.execute.after'(input, output) {
    const folder = new Map(${JSON.stringify(Object.entries(folders))}).get(input.args?.name)
    if (input.tool !== 'skill' || folder === undefined || output.metadata?.dir === folder) return
    throw new Error('Gantry refused "skill": one in the workspace is called "' + input.args.name + '", too. Rename it, or go on without')
  },`
