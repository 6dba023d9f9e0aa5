import type { ErrorCode } from '../../src/contract/error.ts'
import { errorTable } from '../../src/contract/error.ts'
import { contractTools } from '../../src/contract/tools.ts'
import type { Fault } from './broken-gateway.ts'
import {
  type CallRequest,
  type GatewayWorld,
  keyOf,
  parse,
  type ProxyAnswer,
  type ProxyRequest,
  type Repeat,
} from './gateway-world.ts'

const json = { 'content-type': 'application/json' }
const refusal = (code: ErrorCode): ProxyAnswer => ({
  status: errorTable[code].status,
  headers: json,
  text: JSON.stringify({ error: { code, message: 'Refused' } }),
})
const madeUp = (): ProxyAnswer => ({
  status: 200,
  headers: json,
  text: '{"success":true,"result":"made up"}',
})

/** Lets somebody in who should be refused. Only with a good body, so that the order of checks stays right. */
const letsIn = (
  name: string,
  fails: string,
  who: (call: CallRequest, world: GatewayWorld) => boolean,
): Fault => ({
  name,
  fails,
  async call(call, request, world) {
    if (call.id === undefined || !who(call, world)) return
    request.headers['authorization'] = `Bearer ${await world.goodToken(call.sessionId)}`
  },
})

let fresh = 0
/** Carries out a repeated call as if it were a new one. */
const runsAgain = (repeat: Repeat, fails: string): Fault => ({
  name: `runs a ${repeat} repeat under a fresh id`,
  fails,
  call(call, request) {
    if (call.repeat === repeat) edit(request, (body) => (body['tool_call_id'] = `fresh-${fresh++}`))
  },
})

/** Replays what was meant, not what was said. */
const changesByte = (repeat: Repeat, fails: string): Fault => ({
  name: `changes a byte in the answer to a ${repeat} repeat`,
  fails,
  answered(answer, call) {
    if (call.repeat === repeat && answer.status === 200)
      answer.text = answer.text.replace(':', ': ')
  },
})

const swallowsConflict = (tool: string, fails: string): Fault => ({
  name: `takes other arguments of ${tool} for the same`,
  fails,
  call(call, request) {
    if (call.repeat === 'conflict' && call.tool === tool)
      request.body = Buffer.from(call.earlier?.body ?? '')
  },
})

/** Answers a call by what was answered under a key that leaves something out. */
const sharesAnswers = (
  name: string,
  fails: string,
  isShared: (call: CallRequest, key: [session: string, tool: string]) => boolean,
): Fault => ({
  name,
  fails,
  call(call, _, { entries }) {
    if (call.earlier || call.id === undefined) return undefined
    const found = [...entries].find(([key, { answer }]) => {
      const [session = '', tool = '', id] = key.split(' ')
      return answer && id === call.id && isShared(call, [session, tool])
    })
    return found?.[1].answer ?? undefined
  },
})

function edit(request: ProxyRequest, change: (body: Record<string, unknown>) => void): void {
  const body = parse(request.body.toString())
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return
  change(body as Record<string, unknown>)
  request.body = Buffer.from(JSON.stringify(body))
}

/** Changes the answers of tools that it is meant for. */
const rewrites = (
  name: string,
  fails: string,
  isMeant: (text: string) => boolean,
  change: (answer: ProxyAnswer) => void,
): Fault => ({
  name,
  fails,
  answered(answer) {
    if (answer.status === 200 && isMeant(answer.text)) change(answer)
  },
})

const toolNames = contractTools.flatMap(({ name, aliases }) => [name, ...aliases])

export const callFaults: readonly Fault[] = [
  letsIn('lets anybody in', 'token-missing', ({ token }) => token === null),
  letsIn(
    'does not check signatures',
    'token-forged',
    ({ token }, world) => token !== null && token !== world.adminKey && !world.issued.has(token),
  ),
  letsIn(
    'lets expired tokens in',
    'token-expired',
    ({ claims, token }, world) =>
      world.issued.has(token ?? '') && (claims?.exp ?? 0) * 1000 <= Date.now(),
  ),
  letsIn(
    'does not compare the session',
    'token-other-session',
    ({ claims, sessionId, token }, world) =>
      world.issued.has(token ?? '') && claims?.sub !== sessionId,
  ),
  letsIn(
    'does not look at the source',
    'token-other-source',
    ({ claims, token }, world) => world.issued.has(token ?? '') && claims?.source !== 'sandbox',
  ),
  letsIn(
    'does not look at the generation',
    'token-old-generation',
    ({ claims, sessionId, token }, world) =>
      world.issued.has(token ?? '') &&
      claims?.sub === sessionId &&
      claims.gen < world.generation(sessionId),
  ),
  letsIn('takes keys for tokens', 'key-at-tools', ({ token }, { adminKey }) => token === adminKey),
  {
    name: 'takes tokens for keys',
    fails: 'token-at-api',
    other(request, { adminKey }) {
      const isToken = request.headers['authorization']?.split('.').length === 3
      if (request.path.startsWith('/v1/') && isToken)
        request.headers['authorization'] = `Bearer ${adminKey}`
    },
  },
  {
    name: 'looks at the body before the token',
    fails: 'check-order',
    call: (_, { body }) =>
      parse(body.toString()) === undefined ? refusal('invalid_request') : undefined,
  },
  {
    name: 'looks at the tool before the body',
    fails: 'check-order',
    call: ({ tool, id, token }) =>
      token !== null && id === undefined && !toolNames.includes(tool)
        ? refusal('unknown_tool')
        : undefined,
  },
  {
    name: 'makes up a missing tool_call_id',
    fails: 'body-bad',
    call(call, request) {
      if (call.id === undefined) edit(request, (body) => (body['tool_call_id'] ??= 'made up'))
    },
  },
  {
    name: 'cuts arguments that are too large',
    fails: 'body-limits',
    call(_, request) {
      if (request.body.length > 262_200) edit(request, (body) => (body['args'] = { folder: '/' }))
    },
  },
  {
    name: 'does not tell capital letters in the names of tools',
    fails: 'unknown-tool',
    call(call, request) {
      request.path = request.path.replace(call.tool, call.tool.toLowerCase())
    },
  },
  {
    name: 'carries out a tool that the session was not given',
    fails: 'own-tools-of-a-plain-session',
    call: ({ tool }) => (tool === 'memory_search' ? madeUp() : undefined),
  },
  rewrites(
    'refuses arguments instead of answering',
    'arguments-invalid',
    (text) => text.includes('Invalid arguments: surprise:'),
    (answer) => Object.assign(answer, refusal('invalid_request')),
  ),
  rewrites(
    'adds a field to answers',
    'first-call',
    (text) => text.includes('"uploadedCount":1'),
    (answer) => (answer.text = answer.text.replace(/}$/, ',"more":1}')),
  ),
  {
    name: 'loses artifacts',
    fails: 'first-call',
    other: ({ path }) =>
      path.endsWith('/artifacts') && path.startsWith('/v1/')
        ? { status: 200, headers: json, text: '{"items":[]}' }
        : undefined,
  },
  rewrites(
    'takes an empty folder for a failure',
    'verify-empty',
    (text) => text.includes('"uploadedCount":0'),
    (answer) => (answer.text = answer.text.replace('"success":true', '"success":false')),
  ),
  rewrites(
    'believes that files were uploaded',
    'verify-missing-file',
    (text) => text.includes('was not uploaded'),
    (answer) => (answer.text = answer.text.replace('"success":false', '"success":true')),
  ),
  sharesAnswers(
    'keeps calls by session and id',
    'same-id-two-tools',
    (call, [session, tool]) => session === call.sessionId && tool !== call.tool,
  ),
  sharesAnswers(
    'keeps calls by tool and id',
    'same-id-two-sessions',
    (call, [session, tool]) => session !== call.sessionId && tool === call.tool,
  ),
  swallowsConflict('verify', 'conflict'),
  swallowsConflict('automation.complete', 'conflict-answered'),
  runsAgain('plain', 'duplicate'),
  changesByte('plain', 'duplicate'),
  runsAgain('concurrent', 'twenty-at-once'),
  changesByte('concurrent', 'twenty-at-once'),
  runsAgain('reordered', 'arguments-reordered'),
  {
    name: 'compares arguments as text',
    fails: 'arguments-reordered',
    call: ({ repeat }) => (repeat === 'reordered' ? refusal('call_conflict') : undefined),
  },
  runsAgain('refused', 'refusal-replayed'),
  changesByte('refused', 'refusal-replayed'),
  runsAgain('cut', 'cut-socket'),
  runsAgain('next generation', 'next-generation'),
  changesByte('next generation', 'next-generation'),
  runsAgain('alias', 'alias'),
  runsAgain('late', 'late-settled'),
  changesByte('late', 'late-settled'),
  {
    name: 'carries out new calls of closed sessions',
    fails: 'late-new',
    call: ({ sessionId, earlier }, _, { closed }) =>
      closed.has(sessionId) && !earlier ? madeUp() : undefined,
  },
  {
    name: 'remembers deleted sessions',
    fails: 'late-deleted',
    call: ({ sessionId, tool, id }, _, { deleted, entries }) =>
      deleted.has(sessionId)
        ? (entries.get(keyOf(sessionId, tool, id))?.answer ?? undefined)
        : undefined,
  },
]
