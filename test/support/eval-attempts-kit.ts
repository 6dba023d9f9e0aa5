import { type Host, HostSession } from './host.ts'

const at = '/v1/evals/runs'
// Tests look at many shapes, as JSON.parse gives them.
export type Item = ReturnType<typeof JSON.parse>

interface Wanted {
  cases?: Item[]
  target?: Item
  run?: Item
}

export type AttemptSession = HostSession & { turnId: string }

export const partOf = (turnId: string) => ({
  ...{ turnId, sessionId: 'oc1', messageId: 'm', partId: 'p' },
})

/** Eval runs whose attempts work in sessions, with the test as their agent. */
export function attemptsOn(host: () => Host) {
  /** One case, unless others are given, for one target of OpenCode. */
  const begin = ({ cases = [{}], target = {}, run = {} }: Wanted = {}) =>
    host().ok('POST', at, {
      suite: 's.json',
      targets: 't.json',
      files: [
        { path: 's.json', content: JSON.stringify({ dataset: 'd', evalcases: cases.map(caseOf) }) },
        {
          path: 't.json',
          content: JSON.stringify({ targets: [{ name: 'oc', provider: 'opencode', ...target }] }),
        },
      ],
      ...run,
    })

  const attempts = async (id: string): Promise<Item[]> =>
    (await host().ok('GET', `${at}/${id}/attempts`)).items

  const events = async (id: string, kind: string): Promise<Item[]> => {
    const { items } = await host().ok('GET', `${at}/${id}/events?limit=500`)
    return items.filter((event: Item) => event['kind'] === kind).map((event: Item) => event['data'])
  }

  /** The session of an attempt, once its agent has the prompt. */
  const sessionOf = async (runId: string, n = 0, sent: object = {}): Promise<AttemptSession> => {
    await host().live(100)
    const { sessionId } = (await attempts(runId))[n]!
    const session = new HostSession(host(), sessionId)
    await session.meet()
    await host().live(100)
    const [prompt] = session.agent.commands('prompt')
    session.agent.result(prompt!.id, { sent: true, ...sent })
    await host().live(100)
    return Object.assign(session, { turnId: prompt!.body.turnId })
  }

  /** Every attempt of a run that begins them all at once, with the same answer. */
  const finishAll = async (runId: string, text: string): Promise<void> => {
    await host().live(100)
    const sessions = (await attempts(runId)).map(
      ({ sessionId }) => new HostSession(host(), sessionId),
    )
    for (const session of sessions) await session.meet()
    await host().live(100)
    const prompts = sessions.map(({ agent }) => agent.commands('prompt')[0]!)
    for (const [at, { agent }] of sessions.entries()) agent.result(prompts[at]!.id, { sent: true })
    await host().live(100)
    for (const [at, { agent }] of sessions.entries()) {
      const { turnId } = prompts[at]!.body
      agent.emit('message.text', { ...partOf(turnId), text, reasoning: false })
      agent.endTurn(turnId, { text })
    }
    await host().live(6000)
  }

  const finish = async ({ agent, turnId }: AttemptSession, text = 'hello'): Promise<void> => {
    agent.emit('message.text', { ...partOf(turnId), text, reasoning: false })
    agent.endTurn(turnId, { text })
    await host().live(10_000)
  }

  const result = async (id: string, n = 0): Promise<Item> => (await attempts(id))[n]!['result']

  return { begin, attempts, events, sessionOf, finish, finishAll, result }
}

const caseOf = (own: Item, at: number) => ({
  id: `c${at}`,
  expected_outcome: 'done',
  input_messages: [{ role: 'user', content: 'Write hello' }],
  execution: { evaluators: [{ name: 'says', type: 'contains', value: 'hello' }] },
  ...own,
})
