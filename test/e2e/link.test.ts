import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { afterAll, expect, test } from 'vitest'
import type { ToolCall } from '../../src/contract/tool.ts'
import { isLong } from '../support/long.ts'
import { random } from '../support/random.ts'
import { bash, Box, sleep, startTap, type Tap, useRealStack, verify, write } from './support.ts'

let tap: Tap
const stack = useRealStack('workerd', async () => {
  tap = await startTap(() => stack().url)
  return { env: { GANTRY_PUBLIC_URL: tap.url } }
})
afterAll(() => tap?.close())

const wantedCuts = isLong ? 100 : 30
/** A call of verify has six tries, so the last cuts are few. */
const cutsDuringVerify = 5

test(`[EVT5] [LINK2] [CALL3] the link is cut ${wantedCuts} times during a turn: every event once, the turn completes, one verify`, async () => {
  const box = await Box.open(stack())
  const steps = Array.from({ length: 12 }, (_, n) => ({
    text: `Step ${n}: ${'some words '.repeat(20)}`,
    pieceMs: 30,
    ...bash(`sleep 0.3; echo ${n} >> steps.txt; echo step ${n}`),
  }))
  const turn = await box.prompt([
    ...steps,
    bash('while [ ! -e go ]; do sleep 0.1; done'),
    write('.proliferate/.verification/proof.txt', 'proof'),
    verify(),
    { text: 'All steps are done.' },
  ])

  // The model's answers are spared: a cut there is a failure of the model, which is another test.
  const chance = random(1)
  let cuts = 0
  let seenLinks = 0
  for (const end = Date.now() + 240_000; cuts < wantedCuts && Date.now() < end;) {
    const links = tap.asked('/link')
    if (links > seenLinks) {
      await sleep(chance() * 120) // anywhere between the handshake and the work
      if (tap.cut('/link') > 0) {
        cuts += 1
        seenLinks = links
      }
      tap.cut('/proliferate', '/artifacts')
    } else {
      await sleep(10)
    }
    if (cuts === wantedCuts - cutsDuringVerify && !existsSync(box.folder('workspace/go')))
      writeFileSync(box.folder('workspace/go'), '')
  }
  expect(cuts).toBe(wantedCuts)

  expect(await box.ended(turn)).toMatchObject({ state: 'completed', text: 'All steps are done.' })
  const numbers = steps.map((_, n) => `${n}\n`).join('')
  expect(readFileSync(box.folder('workspace/steps.txt'), 'utf8')).toBe(numbers)
  const events = await box.events()
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
  const of = (kind: string) => events.filter((event) => event.kind === kind)
  expect(of('tool.completed')).toHaveLength(steps.length + 3)
  expect(of('tool.started')).toHaveLength(steps.length + 3)
  expect(of('tool.failed')).toEqual([])
  expect(of('message.text')).toHaveLength(steps.length + 1)
  expect(of('step.finished')).toHaveLength(steps.length + 4)
  expect(of('gate.decided')).toHaveLength(steps.length + 3)
  expect(of('turn.ended')).toHaveLength(1)
  expect(of('link.connected').length).toBeGreaterThan(wantedCuts / 2)
  const { items: calls } = (await box.get('/calls')).json as { items: ToolCall[] }
  expect(calls).toMatchObject([{ tool: 'verify', state: 'settled', response: { success: true } }])
  expect(of('call.ended')).toHaveLength(1)
  expect(of('artifact.stored')).toHaveLength(1)
}, 240_000)
