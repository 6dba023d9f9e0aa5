import { randomBytes } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { ScriptStep } from '../../local/model/scripted-model.ts'
import {
  api,
  callsOf,
  createConfiguration,
  dbOf,
  filesUnder,
  filesWith,
  found,
  outboxEmpty,
  outputsOf,
  setSecret,
  snapshotFolder,
  submitEnv,
  tool,
} from './contract-kit.ts'
import { bash, Box, promptText, useRealStack, verify } from './support.ts'

const stack = useRealStack('workerd')

const letters = (bytes: number) => randomBytes(bytes).toString('hex')
const percent = "sed -e 's|/|%2F|g' -e 's|+|%2B|g' -e 's|&|%26|g' -e 's| |%20|g'"

/** Prompts are redacted, too: what the model is to say is hidden from that in a spelling that nobody prints by accident. */
function hidden(steps: ScriptStep[], values: string[]): string {
  const escape = (value: string) =>
    Array.from(value, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
  return values.reduce((text, value) => text.replaceAll(value, escape(value)), promptText(steps))
}

test('[SEC3] [SEC9] [SNAP3] [SNAP4] secrets that the agent prints in any spelling are in no event, row, log, error, diff or prompt', async () => {
  const configured = `cfg/${letters(9)}+${letters(6)}&x y`
  const submitted = `env/${letters(9)}+${letters(6)}&z w`
  const token = `ght_${letters(16)}`
  const values = [configured, submitted, token]
  const { id: configurationId } = await createConfiguration(stack(), {
    name: 'canary',
    repository: { url: makeRepository(), token },
  })
  await setSecret(stack(), 'CONFIGURED', configured, configurationId)
  const box = await Box.open(stack(), { configurationId, gate: { ask: ['todowrite'] } })
  await submitEnv(box, { values: [{ key: 'SUBMITTED', value: submitted }] })
  const envFile = box.folder('tmp/.proliferate_env.json')
  expect(found(readFileSync(envFile, 'utf8'), values)).toEqual([configured, submitted])

  const all = values.join(' and ')
  const steps: ScriptStep[] = [
    { text: `I was given ${all}, I think.`, reasoning: `So ${all}.`, pieceMs: 70, ...bash('true') },
    bash(
      `echo '${all}'; echo '${all}' | base64; echo '${all}' | base64 -w0; echo '${all}' | ${percent}`,
    ),
    bash(`cat '${envFile}'; base64 '${envFile}'; ${percent} '${envFile}'`),
    bash(`cp '${envFile}' leak.json; echo '${all}' > 'of ${token}.txt'`),
    tool('read', { filePath: `missing/${submitted}/${token}.txt` }),
    verify({ folder: `evidence ${all}` }),
    tool('save_snapshot', { message: all }),
    tool('request_env_variables', { keys: [{ key: 'MORE', suggestions: [all] }] }),
    { text: `Done with ${all}.` },
  ]
  const turn = await box.run(hidden(steps, values))
  expect(turn).toMatchObject({ state: 'completed' })
  await box.run(`Please use ${all}.`)
  const waiting = await box.prompt(
    hidden([tool('todowrite', { todos: [{ content: all, status: 'pending' }] })], values),
  )
  const ask = await box.parked()
  expect((await box.answer(ask, 'deny', `because of ${all}`)).status).toBe(200)
  await box.ended(waiting)
  await outboxEmpty(box)

  // It did print them: the model was told.
  const said = JSON.stringify(stack().model?.log())
  expect(found(said, values)).toEqual(values)
  // But not by its instructions.
  const messages = (stack().model?.log() ?? []).flatMap(({ body }) => body.messages)
  const instructions = messages.filter(({ role }) => role === 'system')
  expect(instructions.length).toBeGreaterThan(0)
  expect(found(JSON.stringify(instructions), values)).toEqual([])

  const events = await box.events()
  const deltas = new Map<string, string>()
  for (const { data } of events.filter(({ kind }) => kind === 'message.delta'))
    deltas.set(String(data['partId']), (deltas.get(String(data['partId'])) ?? '') + data['delta'])
  const shown: Record<string, string> = {
    events: JSON.stringify(events),
    deltas: [...deltas.values()].join('\n'),
    calls: JSON.stringify(await callsOf(box)),
    view: (await box.get()).text,
    turns: (await box.get('/turns')).text,
    approvals: (await box.get('/approvals')).text,
    envRequests: (await box.get('/env-requests')).text,
    diff: (await box.get('/diff')).text,
    artifacts: (await box.get('/artifacts')).text,
    status: (await api(stack(), 'GET', '/v1/status')).text,
    configuration: (await api(stack(), 'GET', `/v1/configurations/${configurationId}`)).text,
    secrets: (await api(stack(), 'GET', `/v1/secrets?configurationId=${configurationId}`)).text,
    ledger: await dump(),
  }
  for (const [place, text] of Object.entries(shown))
    expect([place, found(text, values)]).toEqual([place, []])
  const labels = ['[secret:CONFIGURED]', '[secret:SUBMITTED]', '[secret:repository]']
  for (const place of [
    'events',
    'deltas',
    'calls',
    'turns',
    'approvals',
    'envRequests',
    'diff',
    'ledger',
  ])
    for (const label of labels)
      expect([place, shown[place]]).toEqual([place, expect.stringContaining(label)])
  const failed = (await box.eventsOf('tool.failed')).find((one) => one.tool === 'read')
  expect(failed?.error).toContain('[secret:SUBMITTED]/[secret:repository]')

  const logs = filesUnder(stack().stateDir).filter((path) => /\.log(\.1)?$/.test(path))
  expect(logs.length).toBeGreaterThanOrEqual(4)
  // Every file of the stack, so databases and logs as they are on disk.
  expect(filesWith(stack().stateDir, values)).toEqual([])

  const refused = (await callsOf(box)).find((call) => call.tool === 'save_snapshot')
  expect(refused?.response).toMatchObject({ success: false })
  expect(refused?.response?.result).toMatch(
    /Secret "\w+" is in the file "(leak\.json|of \[secret:repository\]\.txt)"/,
  )
  const outputs = await outputsOf(box, [bash('rm leak.json of*; ls -A'), tool('save_snapshot')])
  expect(outputs['save_snapshot']).toMatch(/^Snapshot "snp_\w+" saved on the session/)
  expect(filesUnder(snapshotFolder(stack())).length).toBeGreaterThan(3)
  expect(filesWith(snapshotFolder(stack()), values)).toEqual([])
  await box.post('/close', { reason: `because of ${all}` })
  expect(await box.eventsOf('session.closed')).toEqual([
    { reason: `because of ${labels.join(' and ')}` },
  ])
})

/** Every row of every table, but for what is stored as bytes. */
async function dump(): Promise<string> {
  const db = dbOf(stack())
  const tables = await db.all<{ name: string }>(
    `select name from sqlite_master where type = 'table' and name not in ('blobs') and name not like 'sqlite_%' and name not like '\\_%' escape '\\'`,
  )
  expect(tables.length).toBeGreaterThan(8)
  const rows = await Promise.all(tables.map(({ name }) => db.all(`select * from ${name}`)))
  return JSON.stringify(rows)
}

function makeRepository(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-repo-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', folder, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args])
  git('init', '--quiet', '--initial-branch=main')
  execFileSync('sh', ['-c', 'echo hello > README.md'], { cwd: folder })
  git('add', '.')
  git('commit', '--quiet', '-m', 'one')
  return folder
}
