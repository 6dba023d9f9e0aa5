const lossNotice =
  'Note from Gantry: OpenCode stopped unexpectedly during the last turn and was restarted. ' +
  'Work of that turn may be incomplete, and background processes were ended. Check the state of the workspace before you go on.'

/** What the model must know before it reads the prompt; marked as not said by the user. */
export function noticeParts(
  given: string | undefined,
  announceLoss: boolean,
): { type: 'text'; text: string; synthetic: true }[] {
  const texts = [...(given === undefined ? [] : [given]), ...(announceLoss ? [lossNotice] : [])]
  return texts.map((text) => ({ type: 'text', text, synthetic: true }))
}
