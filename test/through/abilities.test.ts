import { describe, expect, test } from 'vitest'
import { type HostSession, useHost } from '../support/host.ts'
import { report } from '../support/run-world.ts'

// Abilities through the product: they are stored and executed by HTTP, and what comes out is what the sandbox is told to do.

const host = useHost()

/** Stores an ability of one file under a name of its own. */
async function store(yaml: string): Promise<void> {
  await host().ok('PUT', '/v1/abilities', { files: [{ path: 'a.yaml', content: yaml }] })
}

/** Executions have an error of their own, so what is refused is seen by its status. */
async function ask(method: string, path: string, body?: object) {
  const { status, json } = await host().call(method, path, body)
  expect([path, status < 300 ? null : json.error.message]).toEqual([path, null])
  return json
}

const execute = (session: HostSession, ability: string, inputs: object = {}) =>
  ask('POST', `${session.at}/executions`, { ability, inputs })

async function settled(id: string) {
  await host().live()
  return ask('GET', `/v1/executions/${id}`)
}

const statuses = (record: { steps: { stepId: string; status: string }[] }) =>
  Object.fromEntries(record.steps.map(({ stepId, status }) => [stepId, status]))

describe('scripts', () => {
  test('[ABL15][ABL16] the steps of an ability run one after the other in the sandbox, each with what those before it printed', async () => {
    await store(`
name: build-it
description: Build
inputs: { target: { required: true } }
steps:
  - { id: test, run: 'echo {{inputs.target}}' }
  - { id: build, run: 'make "{{steps.test.output}}"', needs: [test], env: { MODE: '{{inputs.target}}' } }
`)
    const session = await host().begin()
    const { id, runId } = await execute(session, 'build-it', { target: "it's" })
    await host().live()
    const first = await session.agent.execute({ output: 'one\n', exitCode: 0 })
    expect(first.operation).toMatchObject({ command: `echo 'it'\\''s'`, operation: 'run' })
    await host().live()
    expect(await host().ok('GET', `${session.at}/ability`)).toMatchObject({
      ...{ active: true, ability: 'build-it', currentStep: 'build', progress: '1/2' },
    })
    const second = await session.agent.execute({ output: 'two', exitCode: 0 })
    expect(second.operation.command).toBe('make "one"')
    expect(second.operation.environment).toMatchObject({
      MODE: "it's",
      ABILITY_INPUTS_JSON: `{"target":"it's"}`,
      ABILITY_STEP_OUTPUTS_JSON: JSON.stringify({
        test: { status: 'completed', output: 'one\n', error: null },
      }),
    })
    const done = await settled(id)
    expect(done).toMatchObject({ status: 'completed', progress: '2/2', error: null })
    expect(statuses(done)).toEqual({ test: 'completed', build: 'completed' })
    expect((await host().ok('GET', `/v1/runs/${runId}`)).run.status).toBe('completed')
  })

  test('[ABL17] one execution at a time: a second is refused, and names the one that runs', async () => {
    await store('{ name: one, description: d, steps: [{ id: a, run: "true" }] }')
    const session = await host().begin()
    await execute(session, 'one')
    const { status, json } = await host().call('POST', `${session.at}/executions`, {
      ability: 'one',
    })
    expect([status, json.error.message]).toEqual([409, 'Already executing ability: one'])
  })

  test('[ABL18] a cancel is final: the script is stopped, and later steps never begin', async () => {
    await store(
      '{ name: long, description: d, steps: [{ id: a, run: "true" }, { id: b, run: "true" }] }',
    )
    const session = await host().begin()
    const { id } = await execute(session, 'long')
    await host().live()
    const running = await session.agent.command('execute')
    await ask('POST', `/v1/executions/${id}/cancel`, {})
    await host().live()
    expect(session.agent.commands('cancel')).toHaveLength(1)
    session.agent.result(running.id, { ...report({ exitCode: 0 }) })
    const record = await settled(id)
    expect([record.status, record.error]).toEqual(['cancelled', 'Cancelled by user'])
    expect(statuses(record)).toEqual({ a: 'failed', b: 'pending' })
    expect(session.agent.commands('execute')).toHaveLength(1)
  })
})
