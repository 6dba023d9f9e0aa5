import { afterAll, expect, test } from 'vitest'
import { mintToken } from '../support/agent.ts'
import { request } from '../support/stack.ts'
import { filesWith, found } from './contract-kit.ts'
import { startVendor, type Vendor } from './contract-vendor.ts'
import { anythingGoes, bash, Box, environOf, until, useRealStack, write } from './support.ts'

let vendor: Vendor
const stack = useRealStack('workerd', async () => {
  vendor = await startVendor(() => stack().model?.url ?? '')
  return { env: { GANTRY_MODEL_BASE_URL: vendor.url } }
})
afterAll(() => vendor?.close())

test('[MODE8] [API6] [HOST5] model calls are counted per session, and the key of the vendor is nowhere in the sandbox', async () => {
  const key = stack().model?.apiKey as string
  const other = await Box.open(stack())
  await other.run([{ text: 'Of another session.', reasoning: 'Not counted here.' }])
  const counted = (box: Box, from: number) =>
    until('the usage is counted', 5_000, async () => {
      return (await box.view()).usage.requests === vendor.usage().requests - from
    })
  await counted(other, 0)
  const before = vendor.usage()
  const box = await Box.open(stack(), await anythingGoes(stack()))
  await box.run([
    { text: 'I write.', reasoning: 'What to write?', ...write('a.txt', 'a\n') },
    bash('env; cat /proc/$PPID/environ | tr "\\0" "\\n"; cat $OPENCODE_CONFIG_DIR/opencode.json'),
    { text: 'Written.' },
  ])
  expect(await box.eventsOf('tool.failed')).toEqual([])
  // Told to the session at the end of each answer, a moment after OpenCode has it.
  await counted(box, before.requests)
  const said = vendor.usage()
  const wanted = {
    requests: said.requests - before.requests,
    inputTokens: said.inputTokens - before.inputTokens,
    outputTokens: said.outputTokens - before.outputTokens,
  }
  expect(wanted.requests).toBeGreaterThanOrEqual(3)
  expect(wanted.inputTokens).toBeGreaterThan(100)
  expect((await box.view()).usage).toEqual(wanted)
  expect((await other.view()).usage).toEqual(before)

  expect(vendor.credentials()).toEqual([`Bearer ${key}`])
  expect(filesWith(box.folder(), [key])).toEqual([])
  for (const pid of box.processes()) expect(found(environOf(pid), [key])).toEqual([])
  expect(found(JSON.stringify(await box.events()), [key])).toEqual([])

  // The vendor's refusal, unchanged but for the key that it quotes.
  const body = (shown: string) =>
    `{"error":  {"message":"Incorrect API key provided: ${shown}. Find yours at /account", "code":"invalid_api_key"}}`
  vendor.refuseWith({ status: 401, body: body(key) })
  const token = await mintToken(stack().env, {
    sessionId: box.id,
    organisationId: stack().organisationId,
  })
  const answer = await request('POST', `${stack().url}/llm/litellm/chat/completions`, token, {
    model: 'scripted',
    messages: [],
  })
  expect(answer).toMatchObject({ status: 401, text: body('[secret:MODEL_KEY]') })
  expect(answer.headers.get('x-vendor')).toBe('v1')
  const turn = await box.run([{ text: 'Never said.' }])
  expect(turn.state).toBe('failed')
  expect(turn.reason).toContain('Incorrect API key provided: [secret:MODEL_KEY]. Find yours')
  expect((await box.view()).usage).toEqual(wanted)
  expect(filesWith(box.folder(), [key])).toEqual([])
  expect(filesWith(stack().stateDir, [key]).filter((path) => path.endsWith('.log'))).toEqual([])

  vendor.refuseWith(null)
  expect(await box.run([{ text: 'Back again.' }])).toMatchObject({ state: 'completed' })
})
