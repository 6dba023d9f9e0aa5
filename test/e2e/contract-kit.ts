import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect } from 'vitest'
import type { ScriptCall, ScriptStep } from '../../local/model/scripted-model.ts'
import type { ChatRequest } from '../../local/model/chat-completions.ts'
import type { Stack } from '../../local/stack/stack.ts'
import { createLibsql } from '../../src/adapters/libsql.ts'
import type { Configuration } from '../../src/contract/configuration.ts'
import type { EnvRequest, EnvSubmitted } from '../../src/contract/env.ts'
import type { ToolCall } from '../../src/contract/tool.ts'
import type { Db } from '../../src/core/ports.ts'
import { type Answer, request } from '../support/stack.ts'
import { type Box, promptText, until } from './support.ts'

type Place = Pick<Stack, 'url' | 'adminKey'>

export const api = (place: Place, method: string, path: string, body?: unknown): Promise<Answer> =>
  request(method, `${place.url}${path}`, place.adminKey, body)

export const dbOf = (stack: Stack): Db =>
  createLibsql({ url: stack.sqld.url, token: stack.sqld.token, requestTimeoutMs: 60_000 })

export async function createConfiguration(
  place: Place,
  input: Record<string, unknown>,
): Promise<Configuration> {
  const answer = await api(place, 'POST', '/v1/configurations', input)
  if (answer.status !== 201) throw new Error(`Cannot create a configuration: ${answer.text}`)
  return answer.json as Configuration
}

export async function loadConfiguration(place: Place, id: string): Promise<Configuration> {
  return (await api(place, 'GET', `/v1/configurations/${id}`)).json as Configuration
}

export async function setSecret(
  place: Place,
  name: string,
  value: string,
  configurationId?: string,
): Promise<void> {
  const answer = await api(place, 'PUT', `/v1/secrets/${name}`, { value, configurationId })
  expect(answer.status, answer.text).toBeLessThan(300)
}

export const submitEnv = async (box: Box, body: object): Promise<EnvSubmitted> => {
  const answer = await box.post('/env', body)
  expect(answer.status, answer.text).toBe(200)
  return answer.json as EnvSubmitted
}

export const envRequests = async (box: Box): Promise<EnvRequest[]> =>
  ((await box.get('/env-requests')).json as { items: EnvRequest[] }).items

export const callsOf = async (box: Box): Promise<ToolCall[]> =>
  ((await box.get('/calls?limit=200')).json as { items: ToolCall[] }).items

export const tool = (name: string, args: Record<string, unknown> = {}): ScriptStep => ({
  calls: [{ name, args }],
})
export const together = (...calls: ScriptCall[]): ScriptStep => ({ calls })

/** Runs the steps and gives what the tools answered, by the name that the model called them by. */
export async function outputsOf(box: Box, steps: ScriptStep[]): Promise<Record<string, string>> {
  const turn = await box.run(steps)
  expect(turn).toMatchObject({ state: 'completed' })
  const done = (await box.eventsOf('tool.completed')).filter((one) => one.turnId === turn.id)
  return Object.fromEntries(done.map((one) => [one.tool, one.output]))
}

/** What the model was asked with tools in the turns of this session, oldest first. */
export const requestsOf = (stack: Stack, mark: string): ChatRequest[] =>
  (stack.model?.log() ?? [])
    .map(({ body }) => body)
    .filter((body) => body.tools?.length && JSON.stringify(body.messages).includes(mark))

/** A prompt that can be found again in what the model was asked. */
export const marked = (mark: string, steps: ScriptStep[]): string => `${mark}\n${promptText(steps)}`

export const toolsShown = (body: ChatRequest | undefined): string[] =>
  (body?.tools ?? []).map((each) => each.function.name).sort()

/** The session's rows are written by its outbox. */
export const outboxEmpty = (box: Box): Promise<boolean> =>
  until('the outbox is empty', 15_000, async () => (await box.view()).outbox.pending === 0)

export function filesUnder(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    const stat = lstatSync(path, { throwIfNoEntry: false })
    if (stat?.isDirectory()) return filesUnder(path)
    return stat?.isFile() ? [path] : []
  })
}

/** How a value may be spelled; in base64 what it alone decides, wherever in something longer it stands. */
export const spellings = (value: string): string[] => {
  const encoded = [0, 1, 2].map((offset) => {
    const text = Buffer.from(`${'.'.repeat(offset)}${value}`).toString('base64')
    return text.slice(offset === 0 ? 0 : 4, -4)
  })
  const url = encoded.map((text) => text.replaceAll('+', '-').replaceAll('/', '_'))
  return [value, encodeURIComponent(value), ...encoded, ...url]
}

export const found = (text: string, values: readonly string[]): string[] =>
  values.filter((value) => spellings(value).some((spelling) => text.includes(spelling)))

export const filesWith = (folder: string, values: readonly string[]): string[] =>
  filesUnder(folder).filter((path) => {
    try {
      return found(readFileSync(path, 'latin1'), values).length > 0
    } catch {
      return false // gone meanwhile
    }
  })

/** Where the sandbox host keeps the snapshots of one organisation. */
export function snapshotFolder(stack: Stack, organisationId = stack.organisationId): string {
  if (stack.sandboxSite === null) throw new Error('The stack has no sandboxes')
  return join(dirname(stack.sandboxSite.root), 'snapshots', organisationId)
}
