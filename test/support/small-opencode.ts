import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { binary } from '../../local/binaries.ts'
import { scriptEnd, scriptStart } from '../../local/model/scripted-model.ts'

/**
 * As much of OpenCode as a session needs, for a small part of what it costs to start. It is called as OpenCode is, wants
 * the same password, loads the gate's plugin and the tools' files from the same folder, and asks the gate before each
 * tool. It does itself what the script in the prompt says, instead of asking a model. A prompt without a script is
 * answered with everything that it was told.
 */
const program = `
import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname, resolve } from 'node:path'
import { parseArgs } from 'node:util'

const options = { port: { type: 'string' }, hostname: { type: 'string' }, 'print-logs': { type: 'boolean' } }
const { values, positionals } = parseArgs({ options, allowPositionals: true })
if (positionals[0] !== 'serve') throw new Error('Unknown command ' + positionals[0])
const { OPENCODE_CONFIG_DIR: folder, OPENCODE_SERVER_PASSWORD: password } = process.env
const authorization = 'Basic ' + Buffer.from('opencode:' + password).toString('base64')
const sessionID = 'ses_small'
const messages = []
const listeners = new Set()
let hooks
const tools = { bash, write }
let isOpen = false
let isBusy = false
let abort = new AbortController()

const loading = load()
async function load() {
  const plugin = await import(folder + '/plugin/proliferate.mjs')
  hooks = await plugin.default()
  const names = readdirSync(folder + '/tool').filter((name) => name.endsWith('.ts'))
  for (const name of names) {
    // As text: that it might have types would cost more than all the rest.
    const text = readFileSync(folder + '/tool/' + name, 'utf8')
    const { default: tool } = await import('data:text/javascript,' + encodeURIComponent(text))
    tools[name.slice(0, -3)] = async (args) => (await tool.execute(args, { abort: abort.signal })).output
  }
}

async function bash({ command }) {
  const output = { env: { ...process.env } }
  await hooks['shell.env']({}, output)
  return new Promise((done) =>
    execFile('sh', ['-c', command], { env: output.env, signal: abort.signal }, (_, out, err) => done(out + err)))
}

async function write({ filePath, content }) {
  mkdirSync(dirname(resolve(filePath)), { recursive: true })
  writeFileSync(resolve(filePath), content)
  return 'Wrote file successfully.'
}

function stepsIn(parts) {
  const { text } = parts.at(-1)
  const from = text.lastIndexOf('${scriptStart}')
  if (from === -1) return [{ text: parts.map((part) => part.text).join('\\n') }]
  return JSON.parse(text.slice(from + ${scriptStart.length}, text.indexOf('${scriptEnd}', from)))
}

async function work({ messageID, parts: given }) {
  isBusy = true
  abort = new AbortController()
  const created = Date.now()
  const info = { id: messageID + '_a', sessionID, role: 'assistant', parentID: messageID, time: { created } }
  const parts = []
  const add = (part) => parts[parts.push({ id: info.id + parts.length, sessionID, messageID: info.id, ...part }) - 1]
  messages.push({ info: { id: messageID, sessionID, role: 'user', time: { created } }, parts: [] }, { info, parts })
  for (const { calls = [], text = '' } of stepsIn(given)) {
    if (abort.signal.aborted) break
    await Promise.all(calls.map((call) => use(call, add)))
    if (text !== '') add({ type: 'text', text, time: { start: created, end: Date.now() } })
  }
  if (abort.signal.aborted) info.error = { name: 'MessageAbortedError', data: { message: 'Aborted' } }
  info.time.completed = Date.now()
  isBusy = false
  for (const listener of listeners)
    listener.write('data: ' + JSON.stringify({ type: 'session.idle', properties: { sessionID } }) + '\\n\\n')
}

async function use({ name, args }, add) {
  const callID = 'call_' + crypto.randomUUID()
  const time = { start: Date.now() }
  const part = add({ type: 'tool', tool: name, callID, state: { status: 'running', input: args, time } })
  try {
    await hooks['tool.execute.before']({ tool: name, sessionID, callID }, { args })
    const output = await tools[name](args)
    part.state = { ...part.state, status: 'completed', output, title: name }
  } catch (error) {
    part.state = { ...part.state, status: 'error', error: error.message }
  }
  time.end = Date.now()
}

const answers = {
  'GET /global/health': () => ({ version: 'small' }),
  'GET /experimental/tool/ids': () => loading.then(() => [...Object.keys(hooks.tool), ...Object.keys(tools)]),
  'POST /session': () => ((isOpen = true), { id: sessionID }),
  'GET /session/status': () => (isBusy ? { [sessionID]: { type: 'busy' } } : {}),
  ['GET /session/' + sessionID]: () => isOpen && { id: sessionID },
  ['GET /session/' + sessionID + '/message']: () => messages,
  ['GET /session/' + sessionID + '/children']: () => [],
  ['POST /session/' + sessionID + '/abort']: () => (abort.abort(), true),
  ['POST /session/' + sessionID + '/prompt_async']: (body) => (void work(JSON.parse(body)), {}),
}
const server = createServer(async (request, response) => {
  if (request.headers.authorization !== authorization) return response.writeHead(401).end()
  if (request.url === '/event') {
    listeners.add(response)
    response.on('close', () => listeners.delete(response))
    return response.writeHead(200).write(': hello\\n\\n')
  }
  if (request.url === '/global/event') return response.writeHead(200).write(': hello\\n\\n')
  let body = ''
  for await (const chunk of request) body += chunk
  const answer = await answers[request.method + ' ' + request.url]?.(body)
  response.writeHead(answer ? 200 : 404).end(JSON.stringify(answer || {}))
})
server.listen(Number(values.port), values.hostname, () =>
  console.log('listening on http://' + values.hostname + ':' + server.address().port))
`

/** The file, as every user may run it. */
export function makeSmallOpenCode(node = binary('node')): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-small-'))
  chmodSync(folder, 0o755)
  const path = join(folder, 'opencode')
  writeFileSync(path, `#!${node}\n${program}`, { mode: 0o755 })
  return path
}
