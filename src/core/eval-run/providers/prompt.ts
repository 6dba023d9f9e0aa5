import type { EvalCase, EvalMessage } from '../../../contract/eval-suite.ts'

/** What a target is asked: the text of a lone message of a user, or the conversation with who says what. */
export function providerPrompt({ inputMessages }: Pick<EvalCase, 'inputMessages'>): string {
  const [only] = inputMessages
  if (only && inputMessages.length === 1) return providerPromptText(only.content)
  return inputMessages
    .map(({ role, content }) => `@[${role}]:\n${providerPromptText(content)}`)
    .join('\n\n')
}

function providerPromptText(content: EvalMessage['content']): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return JSON.stringify(content)
  return content
    .map((block) =>
      block.type === 'text' ? block.value : `<file path="${block.value}">\n${block.text}\n</file>`,
    )
    .join('\n\n')
}
