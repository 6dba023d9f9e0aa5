import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { ScriptStep } from '../../local/model/scripted-model.ts'
import type { Artifact } from '../../src/contract/artifact.ts'
import type { Mode } from '../../src/contract/mode.ts'
import type { SessionDiff } from '../../src/contract/session.ts'
import { contractTools, toolFileName, toolsForMode } from '../../src/contract/tools.ts'
import { mintToken } from '../support/agent.ts'
import { type Host, request } from '../support/stack.ts'
import {
  api,
  callsOf,
  createConfiguration,
  dbOf,
  envRequests,
  filesWith,
  loadConfiguration,
  marked,
  outboxEmpty,
  requestsOf,
  setSecret,
  snapshotFolder,
  submitEnv,
  together,
  tool,
  toolsShown,
} from './contract-kit.ts'
import { isLong } from '../support/long.ts'
import { bash, Box, until, useRealStack, verify, write } from './support.ts'

/** What OpenCode itself shows the model, whatever the mode. */
const builtIn = [
  'bash',
  'edit',
  'glob',
  'grep',
  'read',
  'skill',
  'task',
  'todowrite',
  'webfetch',
  'write',
]
const onePixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const evidence = [
  bash(
    'mkdir -p .proliferate/.verification && cd .proliferate/.verification && ' +
      `printf 'all green\\n' > tests.txt && printf '${onePixel}' | base64 -d > page.png`,
  ),
  verify(),
]
const envArgs = {
  keys: [
    {
      key: 'API_KEY',
      suggestions: ['Ask the team', { label: 'Vault', instructions: 'Look there' }],
    },
    { key: 'LOG_LEVEL', type: 'env', required: false },
  ],
}
const commands = [{ name: 'web', command: 'npm start', cwd: 'app' }]
const files = [
  { path: '.env', format: 'dotenv', mode: 'secret', keys: [{ key: 'API_KEY', required: true }] },
  {
    workspacePath: 'app',
    path: '.env.local',
    format: 'dotenv',
    mode: 'secret',
    keys: [
      { key: 'API_KEY', required: true },
      { key: 'MISSING', required: false },
    ],
  },
]

const envFileOf = (box: Box): Record<string, string> =>
  JSON.parse(readFileSync(box.folder('tmp/.proliferate_env.json'), 'utf8')) as never

/** Each mode, whole, with a real OpenCode. */
export const contractOn = (host: Host) =>
  describe(`the contract on ${host}`, () => {
    const stack = useRealStack(host)

    /** Runs the steps and checks what holds in every mode: the tools shown, and events with their payload. */
    async function runIn(mode: Mode, box: Box, steps: ScriptStep[]): Promise<void> {
      expect((await box.view()).mode).toBe(mode)
      const mark = `turn ${randomUUID()} of ${box.id}`
      const turn = await box.run(marked(mark, steps))
      expect(turn).toMatchObject({ state: 'completed' })
      const shown = requestsOf(stack(), mark).map(toolsShown)
      expect(shown.length).toBeGreaterThanOrEqual(steps.length)
      const wanted = [...builtIn, ...toolsForMode(mode).map(toolFileName)].sort()
      for (const names of shown) expect(names).toEqual(wanted)

      const calls = steps.flatMap(({ calls = [] }) => calls)
      const started = (await box.eventsOf('tool.started')).filter(
        ({ turnId }) => turnId === turn.id,
      )
      expect(started.map((one) => ({ name: one.tool, args: one.input }))).toEqual(calls)
      const completed = await box.eventsOf('tool.completed')
      expect(completed.filter(({ turnId }) => turnId === turn.id)).toHaveLength(calls.length)
    }

    /** Each tool of the mode was called once, and each that the gateway serves settled once. */
    async function expectEachOnce(mode: Mode, box: Box): Promise<void> {
      const ours = toolsForMode(mode)
      const known = new Set(contractTools.map(toolFileName))
      const called = (await box.eventsOf('tool.started')).map((one) => one.tool)
      expect(called.filter((name) => known.has(name)).sort()).toEqual(ours.map(toolFileName).sort())
      const served = ours.filter(({ domain }) => domain === 'gateway').map(({ name }) => name)
      const calls = await callsOf(box)
      expect(calls.map((call) => call.tool).sort()).toEqual(served.sort())
      for (const call of calls)
        expect(call).toMatchObject({ state: 'settled', attempts: 1, response: { success: true } })
    }

    async function expectEvidence(box: Box): Promise<void> {
      const { items } = (await box.get('/artifacts')).json as { items: Artifact[] }
      expect(items.map(({ path, contentType }) => `${path} ${contentType}`).sort()).toEqual([
        'page.png image/png',
        expect.stringMatching(/^tests\.txt text\/plain/),
      ])
      for (const { id, path, contentType } of items) {
        const answer = await box.get(`/artifacts/${id}`)
        expect(answer.headers.get('content-type')).toBe(contentType)
        if (path === 'tests.txt') expect(answer.text).toBe('all green\n')
      }
    }

    async function expectSnapshot(box: Box, target: 'configuration' | 'session'): Promise<string> {
      const [stored, ...more] = await box.eventsOf('snapshot.stored')
      expect(more).toEqual([])
      expect(stored).toMatchObject({ target, message: 'Worth keeping' })
      const id = stored?.id as string
      expect(existsSync(join(snapshotFolder(stack()), id, 'meta.json'))).toBe(true)
      const { configurationId } = await box.view()
      const rows = await until('the snapshot is in libSQL', 15_000, async () => {
        const all = await dbOf(stack()).all('select * from snapshots where session_id = ?', box.id)
        return all.length > 0 && all
      })
      expect(rows).toMatchObject([
        { id, configuration_id: target === 'configuration' ? configurationId : null },
      ])
      return id
    }

    /** Asked for, listed, given in two portions, closed; earlier keys stay. */
    async function expectEnv(box: Box, values: object[]): Promise<void> {
      expect(await envRequests(box)).toMatchObject([
        {
          state: 'open',
          closedAt: null,
          keys: [
            {
              key: 'API_KEY',
              type: 'secret',
              required: true,
              suggestions: [
                { label: 'Ask the team', value: 'Ask the team' },
                { label: 'Vault', instructions: 'Look there' },
              ],
            },
            { key: 'LOG_LEVEL', type: 'env', required: false, suggestions: [] },
          ],
        },
      ])
      const before = envFileOf(box)
      expect(await submitEnv(box, { values })).toMatchObject({
        submitted: true,
        sandbox: 'written',
      })
      expect(await envRequests(box)).toMatchObject([
        { state: 'closed', closedAt: expect.any(Number) },
      ])
      const given = values as { key: string; value: string }[]
      const now = Object.fromEntries(given.map(({ key, value }) => [key, value]))
      expect(envFileOf(box)).toEqual({ ...before, ...now })
      expect(await box.eventsOf('env.submitted')).toEqual([{ keys: given.map(({ key }) => key) }])
    }

    test('[TOOL1] [TOOL2] [TOOL3] [TOOL6] [TOOL7] [TOOL8] [TOOL9] [SNAP4] [SNAP9] setup finds out, coding starts from it: each tool of both once, with its effect', async () => {
      const configuration = await createConfiguration(stack(), { name: 'web', project: 'shop' })
      const { id: configurationId } = configuration
      await setSecret(stack(), 'DATABASE_URL', 'postgres://canary-one@db/x', configurationId)
      const setup = await Box.open(stack(), { configurationId, sessionType: 'setup' })
      expect(envFileOf(setup)).toEqual({ DATABASE_URL: 'postgres://canary-one@db/x' })
      await runIn('setup', setup, [
        bash('mkdir -p app && echo installed > app/installed.js && echo "{}" > .npmrc'),
        ...evidence,
        tool('request_env_variables', envArgs),
      ])
      await expectEvidence(setup)
      await expectEnv(setup, [
        { key: 'API_KEY', value: "canary two's $value", persist: true },
        { key: 'LOG_LEVEL', value: 'debug', type: 'env', persist: true },
      ])
      const listed = await api(stack(), 'GET', `/v1/secrets?configurationId=${configurationId}`)
      expect(listed.json).toMatchObject({ items: [{ name: 'API_KEY' }, { name: 'DATABASE_URL' }] })
      expect(listed.text).not.toContain('canary')

      await runIn('setup', setup, [
        tool('save_service_commands', { commands }),
        tool('save_env_files', { files }),
        tool('save_snapshot', { message: 'Worth keeping' }),
      ])
      await expectEachOnce('setup', setup)
      const snapshotId = await expectSnapshot(setup, 'configuration')
      expect(await loadConfiguration(stack(), configurationId)).toMatchObject({
        serviceCommands: [{ ...commands[0], workspacePath: '.' }],
        envFiles: [{ ...files[0], workspacePath: '.' }, files[1]],
        baseSnapshotId: snapshotId,
      })
      const setupTools = ['save_service_commands', 'save_env_files']
      for (const name of setupTools)
        expect(existsSync(setup.folder(`workspace/.opencode/tool/${name}.ts`))).toBe(true)
      const snapshot = join(snapshotFolder(stack()), snapshotId)
      expect(filesWith(snapshot, ["canary two's $value", 'canary-one'])).toEqual([])
      await setup.post('/close')

      const coding = await Box.open(stack(), { configurationId })
      expect(await coding.view()).toMatchObject({ mode: 'coding', snapshotId })
      expect(readFileSync(coding.folder('workspace/app/installed.js'), 'utf8')).toBe('installed\n')
      for (const name of setupTools)
        for (const folder of ['workspace/.opencode/tool', 'config/tool'])
          expect(existsSync(coding.folder(`${folder}/${name}.ts`)), name).toBe(false)
      // The keys that have a value, from the specification; plain settings are kept for nobody.
      const expected = {
        DATABASE_URL: 'postgres://canary-one@db/x',
        API_KEY: "canary two's $value",
      }
      expect(envFileOf(coding)).toEqual(expected)
      for (const path of ['.env', 'app/.env.local'])
        expect(readFileSync(coding.folder(`workspace/${path}`), 'utf8')).toBe(
          `API_KEY="canary two's \\$value"\n`,
        )
      await runIn('coding', coding, [
        ...evidence,
        tool('request_env_variables', envArgs),
        write('app/new.js', 'new\n'),
        tool('save_snapshot', { message: 'Worth keeping' }),
      ])
      expect(
        await coding.bash(
          'git status --porcelain --untracked-files=all -- . ":!.proliferate/.verification"',
        ),
      ).toBe('?? .npmrc\n?? app/installed.js\n?? app/new.js\n')
      const diff = (await coding.get('/diff')).json as SessionDiff
      const changed = diff.files.map(({ path }) => path)
      expect(changed).toContain('app/new.js')
      expect(changed.filter((path) => path.includes('.env') || path.includes('.opencode'))).toEqual(
        [],
      )
      await expectEachOnce('coding', coding)
      await expectEvidence(coding)
      await expectSnapshot(coding, 'session')
      await expectEnv(coding, [{ key: 'EXTRA', value: 'canary-three' }])
      // Its own state is no base for others.
      expect((await loadConfiguration(stack(), configurationId)).baseSnapshotId).toBe(snapshotId)
    })

    if (isLong)
      test('[MODE1] [TOOL1] [TOOL7] scratch: each tool once, with its effect, and no configuration needed', async () => {
        const box = await Box.open(stack())
        await runIn('scratch', box, [
          ...evidence,
          tool('request_env_variables', envArgs),
          tool('save_snapshot', { message: 'Worth keeping' }),
        ])
        await expectEachOnce('scratch', box)
        await expectEvidence(box)
        await expectSnapshot(box, 'session')
        const { results } = await submitEnv(box, {
          values: [{ key: 'A', value: 'canary-four' }],
          saveToConfiguration: true,
        })
        // There is no configuration to keep it in.
        expect(results).toEqual([{ key: 'A', persisted: false, alreadyExisted: false }])
        expect(envFileOf(box)).toEqual({ A: 'canary-four' })
        expect(await envRequests(box)).toMatchObject([{ state: 'closed' }])
      })

    test('[TOOL4] [TOOL5] [CALL11] automation: each tool once, and its completion counts once whatever is repeated', async () => {
      const { id: configurationId } = await createConfiguration(stack(), { name: 'nightly' })
      const runId = `nightly-${host}`
      const box = await Box.open(stack(), {
        configurationId,
        clientType: 'automation',
        automationRunId: runId,
      })
      await runIn('automation', box, [
        ...evidence,
        tool('request_env_variables', envArgs),
        tool('save_snapshot', { message: 'Worth keeping' }),
      ])
      await expectEvidence(box)
      await expectSnapshot(box, 'session')

      const completion = {
        run_id: runId,
        completion_id: 'done-1',
        outcome: 'succeeded',
        summary: 'All done',
        data: { pull: 7, checks: ['a', 'b'] },
      }
      const { run_id: _run, completion_id: _id, ...payload } = completion
      const { outcome, summary } = payload
      const data = { checks: ['a', 'b'], pull: 7 }
      const reordered = { data, summary, outcome, runId, completionId: 'done-1' }
      const other = { ...completion, outcome: 'failed' }
      const late = { ...completion, completion_id: 'done-2' }
      const name = 'automation_complete'
      const turn = await box.run([
        together({ name, args: completion }, { name, args: reordered }),
        tool(name, other),
        tool(name, late),
        { text: 'These were my last words.' },
      ])
      expect(turn).toMatchObject({ state: 'completed', text: 'These were my last words.' })
      const answers = (await box.eventsOf('tool.completed')).filter((one) => one.tool === name)
      const success = `Run "${runId}" is completed: succeeded`
      expect(answers.map(({ output }) => output)).toEqual([
        success,
        success,
        'tool_call_id "done-1" was used for "automation.complete" with other arguments',
        `Cannot complete run "${runId}": completion "done-1" is already recorded`,
      ])
      await until('the session closes by itself', 10_000, async () => {
        return (await box.view()).status === 'closed'
      })
      const view = await box.view()
      expect(view.automationRun).toMatchObject({
        id: runId,
        state: outcome,
        completionId: 'done-1',
      })
      expect(await box.eventsOf('automation.completed')).toEqual([
        { runId, completionId: 'done-1', outcome },
      ])
      expect(await box.eventsOf('session.closed')).toHaveLength(1)
      expect(await callsOf(box)).toMatchObject([
        { tool: 'verify' },
        { tool: 'save_snapshot' },
        { tool: 'automation.complete', toolCallId: 'done-1', attempts: 1, conflicts: 1 },
        { tool: 'automation.complete', toolCallId: 'done-2', attempts: 1, conflicts: 0 },
      ])

      // After the close, too: what is settled is answered again, under both names, and nothing new begins.
      const token = await mintToken(stack().env, {
        sessionId: box.id,
        organisationId: stack().organisationId,
      })
      const call = (spelling: string, id: string, args: object) =>
        request('POST', `${stack().url}/proliferate/${box.id}/tools/${spelling}`, token, {
          tool_call_id: id,
          args,
        })
      const replayed = await call(name, 'done-1', completion)
      expect(replayed.json).toMatchObject({ success: true, result: success, data: { outcome } })
      expect((await call('automation.complete', 'done-1', reordered)).text).toBe(replayed.text)
      expect((await call(name, 'done-1', other)).json).toMatchObject({ success: false })
      expect((await call(name, 'done-3', { ...late, completion_id: 'done-3' })).json).toMatchObject(
        {
          success: false,
          result: `Cannot complete run "${runId}": completion "done-1" is already recorded`,
        },
      )
      expect((await call('verify', 'done-4', {})).status).toBe(403)

      await outboxEmpty(box)
      const rows = await dbOf(stack()).all<Record<string, unknown>>(
        'select * from automation_runs where organisation_id = ? and id = ?',
        stack().organisationId,
        runId,
      )
      expect(rows).toMatchObject([
        {
          session_id: box.id,
          configuration_id: configurationId,
          state: outcome,
          outcome,
          completion_id: 'done-1',
          completed_at: view.automationRun?.completedAt,
        },
      ])
      expect(JSON.parse(String(rows[0]?.['payload']))).toEqual(payload)
    })
  })
