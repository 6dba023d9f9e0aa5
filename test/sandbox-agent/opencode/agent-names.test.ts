import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { AgentNames } from '../../../sandbox-agent/opencode/agent-names.ts'
import type { OpenCodeEvent } from '../../../sandbox-agent/opencode/opencode.ts'

const recording = new URL('recordings/tools-and-sub-agent.json', import.meta.url)
const { rootSession, events } = JSON.parse(readFileSync(recording, 'utf8')) as {
  rootSession: string
  events: OpenCodeEvent[]
}
const partOf = ({ properties }: OpenCodeEvent) =>
  properties['part'] as { sessionID: string; tool?: string } | undefined
const isTool = (event: OpenCodeEvent) => partOf(event)?.tool !== undefined

function hear(heard: OpenCodeEvent[]): AgentNames {
  const names = new AgentNames()
  for (const event of heard) names.hear(event)
  return names
}

const subSession = events.map(partOf).find((part) => part && part.sessionID !== rootSession)
  ?.sessionID as string

it('[GATE8] each tool is known by the agent of its session, a sub-agent also by its parent', () => {
  const names = new AgentNames()
  const seen = new Set<string>()
  for (const event of events) {
    names.hear(event)
    const part = isTool(event) ? partOf(event) : undefined
    if (part) seen.add(JSON.stringify([part.sessionID === rootSession, names.of(part.sessionID)]))
  }
  expect([...seen].map((each) => JSON.parse(each) as unknown)).toEqual([
    [true, { agent: 'build' }],
    [false, { agent: 'build', subagent: 'general' }],
  ])
})

it('[GATE8] the session of a sub-agent that was made before this OpenCode is known again once it goes on', () => {
  const names = hear(events.filter(({ type }) => type !== 'session.created'))
  expect(names.of(subSession)).toEqual({ agent: 'build', subagent: 'general' })
})

it('[GATE8] of a session that was never heard of nothing is said', () => {
  expect(hear([]).of('ses_unknown')).toEqual({})
})
