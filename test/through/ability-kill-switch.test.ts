import { expect, test } from 'vitest'
import { useHost } from '../support/host.ts'

// Abilities while the kill switch is on, and once it is lifted.

const host = useHost()

const get = async (id: string) => (await host().call('GET', `/v1/executions/${id}`)).json
const begin = async (name: string, steps: string) => {
  const content = `{ name: ${name}, description: d, steps: [${steps}, { id: last, run: make last }] }`
  await host().ok('PUT', '/v1/abilities', { files: [{ path: 'a.yaml', content }] })
  const session = await host().begin()
  const { json } = await host().call('POST', `${session.at}/executions`, { ability: name })
  await host().live()
  return { session, id: json.id }
}

test('[ABL26] [ABL36] the kill switch begins no step, and what it has stopped asks a person once it is lifted', async () => {
  const script = await begin('stopped', '{ id: a, run: make }')
  const asking = await begin('asked', '{ id: a, type: approval, prompt: "Go?", timeout: 10h }')
  const [{ approvalId }] = (await get(asking.id)).waitsFor
  await host().ok('POST', '/v1/kill-switch', { on: true, reason: 'too much' })
  await host().live(40_000)
  expect(host().sandboxes.running.size).toBe(0)
  await host().ok('POST', `/v1/approvals/${approvalId}/resolve`, { resolution: 'approved' })
  await host().live(60_000)
  expect(host().sandboxes.running.size).toBe(0)
  expect(asking.session.agent.commands('execute')).toEqual([])
  expect((await get(script.id)).status).toBe('running')

  await host().ok('POST', '/v1/kill-switch', { on: false })
  await host().live(120_000)
  const stopped = await get(script.id)
  expect(stopped.waitsFor).toMatchObject([{ stepId: 'a', why: /may or may not have run/ }])
  await host().call('POST', `/v1/executions/${script.id}/resume`, { stepId: 'a', answer: 'retry' })
  for (const { session, id } of [script, asking]) {
    await host().live(5000)
    await session.meet()
    for (let round = 0; round < 2 && (await get(id)).status === 'running'; round += 1) {
      await session.agent.execute({ exitCode: 0 })
      await host().live()
    }
    expect([id, (await get(id)).status]).toEqual([id, 'completed'])
  }
})
