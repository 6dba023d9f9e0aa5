const checkFirst = 'Check the state of the workspace before you go on.'

/** For the next prompt, after OpenCode was lost during a turn. `hangs`: why it was ended, if it did not end by itself. */
export function turnLossNotice(hangs: string | null): string {
  const what =
    hangs === null
      ? 'OpenCode stopped unexpectedly during the last turn and was restarted.'
      : `OpenCode was ended and restarted during the last turn. The reason: ${hangs}.`
  return `Note from Gantry: ${what} Work of that turn may be incomplete, and background processes were ended. ${checkFirst}`
}

export const idleLossNotice =
  'Note from Gantry: OpenCode stopped unexpectedly after the last turn and was restarted. ' +
  `Background processes were ended. ${checkFirst}`

/** What the model must know before it reads the prompt; marked as not said by the user. */
export function turnNoticeParts(
  given: string | undefined,
  loss: string | null,
): { type: 'text'; text: string; synthetic: true }[] {
  const texts = [given ?? null, loss].filter((text) => text !== null)
  return texts.map((text) => ({ type: 'text', text, synthetic: true }))
}
