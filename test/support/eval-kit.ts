/** Cases that ask for four, and a target that answers what was recorded. */
export function evalFiles(
  ids: readonly string[],
  answers: Record<string, string | string[]>,
  target: object = {},
  required: readonly string[] = [],
) {
  return {
    suite: 'sums.yaml',
    targets: 'targets.json',
    files: [
      { path: 'sums.yaml', content: suiteText(ids, required) },
      { path: 'targets.json', content: targetsText(answers, target) },
    ],
  }
}

const suiteText = (ids: readonly string[], required: readonly string[]): string => `dataset: sums
execution: { target: recorded }
evalcases: ${JSON.stringify(ids.map((id) => caseOf(id, required.includes(id))))}
`

const caseOf = (id: string, required: boolean) => ({
  ...{ id, required },
  expected_outcome: 'Says four',
  input_messages: [{ role: 'user', content: 'What is two and two?' }],
  execution: { evaluators: [{ name: 'says', type: 'contains', value: '4' }] },
})

function targetsText(answers: Record<string, string | string[]>, target: object): string {
  const responses = Object.entries(answers).map(([id, texts]) => [
    id,
    [texts].flat().map((content) => ({ outputMessages: [{ role: 'assistant', content }] })),
  ])
  const recorded = { name: 'recorded', provider: 'replay', workers: 2, ...target }
  return JSON.stringify({ targets: [{ ...recorded, responses: Object.fromEntries(responses) }] })
}
