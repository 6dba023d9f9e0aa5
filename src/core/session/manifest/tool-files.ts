import type { ToolDefinition } from '../../../contract/tool.ts'
import { toolFileName, toolJsonSchema } from '../../../contract/tools.ts'

export interface ToolFile {
  /** OpenCode names a tool after its file. */
  toolId: string
  wrapper: string
  guidance: string
  /** OpenCode marks every property of a plain schema as required; the plugin corrects it with this list. */
  required: string[]
}

export function toolFile(tool: ToolDefinition): ToolFile {
  const schema = toolJsonSchema(tool)
  const guidance = `${tool.description}\n\n${tool.guidance}`
  const wrapper = tool.domain === 'gateway' ? wrapperText : localWrapperText
  return {
    toolId: toolFileName(tool),
    wrapper: wrapper(tool, guidance, schema.properties ?? {}, schema.required ?? []),
    guidance: `${guidance}\n`,
    required: schema.required ?? [],
  }
}

/**
 * OpenCode refuses every prompt when one tool file cannot be loaded, so the wrapper imports nothing. It makes one
 * logical request: whatever goes wrong on the way to the relay, it asks again under the same id. Errors become text.
 */
function wrapperText(
  tool: ToolDefinition,
  description: string,
  args: object,
  required: string[],
): string {
  return `// Written by Gantry. Changes are undone before the next turn.
const tool = ${JSON.stringify(tool.name)}
const idSpellings = ${JSON.stringify(idSpellings(tool))}
const required = ${JSON.stringify(required)}
const pollTimeoutMs = 60_000
const triesWithoutAnswer = 6

const failure = (text) => ({ success: false, result: text })
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

const variables = ['PROLIFERATE_GATEWAY_URL', 'PROLIFERATE_SESSION_ID', 'SANDBOX_MCP_AUTH_TOKEN']

async function attach(id, args, abort) {
  const url = process.env.PROLIFERATE_GATEWAY_URL + '/proliferate/' + process.env.PROLIFERATE_SESSION_ID + '/tools/' + encodeURIComponent(tool)
  const timeout = AbortSignal.timeout(pollTimeoutMs)
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.SANDBOX_MCP_AUTH_TOKEN },
    body: JSON.stringify({ tool_call_id: id, args }),
    signal: abort ? AbortSignal.any([abort, timeout]) : timeout,
  })
  if (response.status === 202) {
    await response.text()
    return undefined
  }
  const text = await response.text()
  if (response.ok) return JSON.parse(text)
  return failure('Gateway error ' + response.status + ': ' + messageIn(text).slice(0, 200).replace(/[\\ud800-\\udbff]$/, ''))
}

function messageIn(text) {
  try {
    return JSON.parse(text).error.message
  } catch {
    return text
  }
}

async function call(id, args, abort) {
  const missing = variables.filter((name) => !process.env[name])
  if (missing.length > 0) return failure('Gateway error: not set in the sandbox: ' + missing.join(', '))
  let failures = 0
  while (true) {
    try {
      const answer = await attach(id, args, abort)
      failures = 0
      if (answer !== undefined) return answer
    } catch (error) {
      failures += 1
      if (abort?.aborted) return failure('Aborted')
      if (failures >= triesWithoutAnswer) return failure('Gateway error: ' + (error?.message ?? String(error)))
      await sleep(500 * 2 ** (failures - 1))
    }
  }
}

export default {
  description: ${JSON.stringify(description)},
  args: ${JSON.stringify(args)},
  async execute(args, context) {
    // Models send null or "" for what they leave out.
    const isGiven = ([name, value]) => required.includes(name) || (value !== null && value !== '')
    const given = Object.fromEntries(Object.entries(args ?? {}).filter(isGiven))
    const empty = Object.keys(given).find((name) => Array.isArray(given[name]) && given[name].length === 0)
    // An id that the model chose makes its call repeatable; else each call has its own.
    const chosen = idSpellings.map((name) => given[name]).find((value) => typeof value === 'string' && value !== '')
    const id = chosen ?? crypto.randomUUID()
    const answer = empty
      ? failure('Invalid arguments: ' + empty + ': must not be empty')
      : await call(id, given, context?.abort)
    const output = typeof answer?.result === 'string' ? answer.result : 'Gateway error: the answer has no result'
    return { title: tool, output, metadata: { success: answer?.success === true, tool_call_id: id } }
  },
}
`
}

function idSpellings({ callIdFrom }: ToolDefinition): string[] {
  if (callIdFrom === undefined) return []
  return [
    callIdFrom,
    callIdFrom.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
  ]
}

/** Runs in the sandbox and answers at once: the control plane learns of it from the streamed event. */
function localWrapperText(
  tool: ToolDefinition,
  description: string,
  args: object,
  required: string[],
): string {
  return `// Written by Gantry. Changes are undone before the next turn.
const required = ${JSON.stringify(required)}

export default {
  description: ${JSON.stringify(description)},
  args: ${JSON.stringify(args)},
  async execute(args) {
    const missing = required.find((name) => args?.[name] == null || args[name].length === 0)
    const output = missing ? 'Invalid arguments: ' + missing + ': must not be empty' : ${JSON.stringify(tool.localAnswer ?? 'Done.')}
    return { title: ${JSON.stringify(tool.name)}, output, metadata: { success: !missing } }
  },
}
`
}
