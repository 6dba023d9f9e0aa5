/** The shapes of `POST /v1/chat/completions`, as far as OpenCode uses them. */
export interface ChatRequest {
  model: string
  stream?: boolean
  messages: ChatMessage[]
  tools?: { type: string; function: { name: string } }[]
}
export interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content?: string | { type: string; text?: string }[] | null
  tool_calls?: { id: string; function: { name: string; arguments: string } }[]
  tool_call_id?: string
}

export interface Reply {
  id: string
  model: string
  reasoning: string
  text: string
  calls: { id: string; name: string; arguments: string }[]
  promptTokens: number
}

const pieceLength = 24

/** The answer in the pieces of a stream: reasoning, text, tool calls, the reason of the end, usage. */
export function completionChunks(reply: Reply): object[] {
  const chunk = (delta: object, finishReason: string | null = null) => ({
    ...envelope(reply, 'chat.completion.chunk'),
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  })
  return [
    chunk({ role: 'assistant', content: '' }),
    ...pieces(reply.reasoning).map((piece) => chunk({ reasoning_content: piece })),
    ...pieces(reply.text).map((piece) => chunk({ content: piece })),
    ...reply.calls.flatMap((call, index) => [
      chunk({
        tool_calls: [{ index, ...toolCall(call), function: { name: call.name, arguments: '' } }],
      }),
      ...pieces(call.arguments, 400).map((piece) =>
        chunk({ tool_calls: [{ index, function: { arguments: piece } }] }),
      ),
    ]),
    chunk({}, finishReason(reply)),
    { ...envelope(reply, 'chat.completion.chunk'), choices: [], usage: usageOf(reply) },
  ]
}

export function completionOf(reply: Reply): object {
  return {
    ...envelope(reply, 'chat.completion'),
    choices: [
      {
        index: 0,
        finish_reason: finishReason(reply),
        message: {
          role: 'assistant',
          content: reply.text,
          ...(reply.calls.length === 0 ? {} : { tool_calls: reply.calls.map(toolCall) }),
        },
      },
    ],
    usage: usageOf(reply),
  }
}

const envelope = (reply: Reply, object: string) => ({
  id: reply.id,
  object,
  created: Math.floor(Date.now() / 1000),
  model: reply.model,
})

const toolCall = (call: Reply['calls'][number]) => ({
  id: call.id,
  type: 'function',
  function: { name: call.name, arguments: call.arguments },
})

const finishReason = (reply: Reply) => (reply.calls.length > 0 ? 'tool_calls' : 'stop')

function usageOf(reply: Reply) {
  const written = [reply.text, reply.reasoning, ...reply.calls.map((call) => call.arguments)]
  const completionTokens = Math.ceil(written.join('').length / 4)
  return {
    prompt_tokens: reply.promptTokens,
    completion_tokens: completionTokens,
    total_tokens: reply.promptTokens + completionTokens,
  }
}

function pieces(text: string, length = pieceLength): string[] {
  const characters = Array.from(text)
  const count = Math.ceil(characters.length / length)
  return Array.from({ length: count }, (_, index) =>
    characters.slice(index * length, (index + 1) * length).join(''),
  )
}
