import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../../../local/binaries.ts'
import { script, type ScriptStep, startScriptedModel } from '../../../local/model/scripted-model.ts'
import type { ChatMessage } from '../../../local/model/chat-completions.ts'

const tools = [{ type: 'function', function: { name: 'bash' } }]

async function model() {
  const started = await startScriptedModel({ apiKey: 'sk-test' })
  onTestFinished(() => started.close())
  const ask = (messages: ChatMessage[], more: object = { tools }) =>
    fetch(`${started.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk-test', 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'scripted', stream: true, messages, ...more }),
    })
  return { ...started, ask }
}

interface Chunk {
  choices: {
    delta: {
      content?: string
      reasoning_content?: string
      tool_calls?: { index: number; id?: string; function: { name?: string; arguments: string } }[]
    }
    finish_reason: string | null
  }[]
  usage?: { prompt_tokens: number; completion_tokens: number }
}

/** Puts a stream together the way a client does. */
async function read(response: Response) {
  const lines = (await response.text()).split('\n\n').filter((line) => line !== '')
  expect(lines.at(-1)).toBe('data: [DONE]')
  const chunks = lines.slice(0, -1).map((line) => JSON.parse(line.replace('data: ', '')) as Chunk)
  const deltas = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.delta))
  const calls: { id: string; name: string; arguments: string }[] = []
  for (const call of deltas.flatMap((delta) => delta.tool_calls ?? [])) {
    calls[call.index] ??= { id: call.id ?? '', name: call.function.name ?? '', arguments: '' }
    const known = calls[call.index]
    if (known) known.arguments += call.function.arguments
  }
  return {
    text: deltas.map((delta) => delta.content ?? '').join(''),
    reasoning: deltas.map((delta) => delta.reasoning_content ?? '').join(''),
    calls,
    finish: chunks
      .flatMap((chunk) => chunk.choices.map((choice) => choice.finish_reason))
      .findLast(Boolean),
    usage: chunks.at(-1)?.usage,
  }
}

const prompt = (steps: ScriptStep[]): ChatMessage => ({
  role: 'user',
  content: `Please do.\n${script(steps)}`,
})

test('[LOC14] the scripted model refuses a wrong key', async () => {
  const { url } = await model()
  for (const path of ['/chat/completions', '/log', '/models']) {
    const response = await fetch(`${url}${path}`, { headers: { authorization: 'Bearer sk-other' } })
    expect(response.status).toBe(401)
  }
})

test('[LOC14] each answer is the step after those already given', async () => {
  const { ask } = await model()
  const steps = [
    { reasoning: 'Hm.', text: 'First.', calls: [{ name: 'bash', args: { command: 'ls' } }] },
    {
      calls: [
        { name: 'read', args: {} },
        { name: 'read', args: { n: 2 }, id: 'mine' },
      ],
    },
    { text: 'Last.' },
  ]
  const messages: ChatMessage[] = [prompt(steps)]
  const first = await read(await ask(messages))
  expect(first).toMatchObject({ text: 'First.', reasoning: 'Hm.', finish: 'tool_calls' })
  expect(first.calls).toEqual([
    { id: expect.any(String), name: 'bash', arguments: '{"command":"ls"}' },
  ])
  expect(first.usage?.prompt_tokens).toBeGreaterThan(0)
  expect(await read(await ask(messages))).toEqual(first)

  messages.push(
    { role: 'assistant', content: 'First.' },
    { role: 'tool', content: 'x', tool_call_id: '1' },
  )
  const second = await read(await ask(messages))
  expect(second.calls.map(({ name, id }) => [name, id])).toEqual([
    ['read', expect.any(String)],
    ['read', 'mine'],
  ])
  messages.push(
    { role: 'assistant' },
    { role: 'tool', content: 'y' },
    { role: 'user', content: 'By the way' },
  )
  expect(await read(await ask(messages))).toMatchObject({
    text: 'Last.',
    calls: [],
    finish: 'stop',
  })
  messages.push({ role: 'assistant', content: 'Last.' })
  expect(await read(await ask(messages))).toMatchObject({ text: 'Done.' })
  messages.push(prompt([{ text: 'A new script.' }]))
  expect(await read(await ask(messages))).toMatchObject({ text: 'A new script.' })
})

test('[LOC14] a prompt without a script and a request for a title get a friendly answer', async () => {
  const { ask } = await model()
  const greeting = await read(
    await ask([{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }]),
  )
  expect(greeting.text).toContain('ANTHROPIC_API_KEY')
  const title = await read(await ask([prompt([{ calls: [{ name: 'bash', args: {} }] }])], {}))
  expect(title).toMatchObject({ text: 'Scripted session', calls: [] })
})

test('[LOC14] it fails in the ways that a script asks for', async () => {
  const { ask } = await model()
  const failing = [prompt([{ httpError: { status: 529, times: 2 }, text: 'At last.' }])]
  expect((await ask(failing)).status).toBe(529)
  expect((await ask(failing)).status).toBe(529)
  expect(await read(await ask(failing))).toMatchObject({ text: 'At last.' })
  const broken = await read(
    await ask([prompt([{ brokenJson: true, calls: [{ name: 'bash', args: {} }] }])]),
  )
  expect(() => JSON.parse(broken.calls[0]?.arguments ?? '')).toThrow()
  const dropped = await ask([prompt([{ dropConnection: true, text: 'x'.repeat(500) }])])
  await expect(dropped.text()).rejects.toThrow()
  const startedAt = Date.now()
  await read(await ask([prompt([{ stallMs: 120, text: 'Slow.' }])]))
  expect(Date.now() - startedAt).toBeGreaterThanOrEqual(115)
})

test('[LOC14] it tells what it was asked', async () => {
  const { ask, url } = await model()
  await ask([{ role: 'user', content: 'Hi' }])
  const response = await fetch(`${url}/log`, { headers: { authorization: 'Bearer sk-test' } })
  expect(await response.json()).toMatchObject([
    { body: { messages: [{ role: 'user', content: 'Hi' }], tools } },
  ])
})

const page = readFileSync(join(root, 'docs', 'scripted-model.md'), 'utf8')

test('[LOC14] the example of docs/scripted-model.md plays as it says', async () => {
  const { ask } = await model()
  const [, content = ''] = /```text\n([\s\S]*?)```/.exec(page) ?? []
  const messages: ChatMessage[] = [{ role: 'user', content }]
  const answers: Awaited<ReturnType<typeof read>>[] = []
  for (let step = 0; step < 4; step += 1) {
    answers.push(await read(await ask(messages)))
    messages.push({ role: 'assistant', content: '' })
  }
  expect(answers.map(({ text, calls }) => [text, calls.map(({ name }) => name)])).toEqual([
    ['', ['write']],
    ['', ['bash']],
    ['HELLO.md says Hello.', []],
    ['Done.', []],
  ])
  expect(JSON.parse(answers[0]?.calls[0]?.arguments ?? '')).toEqual({
    filePath: 'HELLO.md',
    content: 'Hello',
  })
  expect(answers[1]?.reasoning).toBe('It is written. Now it is read.')
})

test('[LOC14] docs/scripted-model.md has every field of a step', () => {
  const fields: Record<keyof ScriptStep, true> = {
    text: true,
    reasoning: true,
    calls: true,
    stallMs: true,
    pieceMs: true,
    httpError: true,
    brokenJson: true,
    dropConnection: true,
  }
  const listed = [...page.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name)
  expect(listed).toEqual(Object.keys(fields))
})
