import { describe, expect, test } from 'vitest'
import { hideSecretLikeText, SecretLikeStream } from '../../../src/core/redaction/secret-like.ts'
import { gatewayTools } from '../../../src/core/session/calls/tools/registry.ts'
import { operations, policyOf, RunWorld } from '../../support/run-world.ts'
import { random } from '../../support/random.ts'
import { testCaller, TestSession } from '../../support/session.ts'

const letters = 'aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6kL9nP2rS5tU8wX1zA4cD7eG0fI3'
const of = (length: number) => letters.repeat(3).slice(0, length)
const upper = (length: number) => of(100).toUpperCase().slice(0, length)
/** Put together here, so that no scanner takes this file for a leak. */
const keys: [kind: string, key: string][] = [
  ['github', `ghp_${of(36)}`],
  ['github', `github_pat_${of(22)}_${of(59)}`],
  ['gitlab', `glpat-${of(20)}`],
  ['anthropic', `sk-ant-api03-${of(95)}`],
  ['openai', `sk-proj-${of(48)}`],
  ['openai', `sk-${of(48)}`],
  ['aws', `AKIA${upper(16)}`],
  ['slack', `xoxb-${'1'.repeat(12)}-${of(24)}`],
  ['npm', `npm_${of(36)}`],
  ['google', `AIza${of(35)}`],
  ['stripe', `sk_live_${of(24)}`],
  ['huggingface', `hf_${of(34)}`],
  ['sendgrid', `SG.${of(22)}.${of(43)}`],
  ['gantry', `gk_${of(32).toLowerCase()}`],
  ['jwt', `eyJ${of(20)}.eyJ${of(60)}.${of(43)}`],
  [
    'private-key',
    `-----BEGIN RSA PRIVATE KEY-----\n${of(64)}\n${of(64)}\n-----END RSA PRIVATE KEY-----`,
  ],
]

describe('[SEC10] what looks like a key', () => {
  test.each(keys)('%s is hidden wherever it stands', (kind, key) => {
    const label = `[secret-like:${kind}]`
    for (const [before, after] of [
      ['', ''],
      ['token=', ' and more'],
      ['"', '",'],
      ['first\n', '\nlast'],
      [String.raw`{"text":"a\n`, '"}'],
      ['https://user:', '@host/x'],
    ])
      expect(hideSecretLikeText(`${before}${key}${after}`)).toBe(`${before}${label}${after}`)
  })

  test.each([
    'sk-learn and sk-circle-fade-dot are names, so is task-force',
    'ghp_ is how they begin; npm_config_registry, hf_hub_download',
    `sha256 ${'0123456789abcdef'.repeat(4)}`,
    `ses_${'a1b2c3'.repeat(5)} run_${'a1'.repeat(19)} apr_${'a1'.repeat(19)} key_${'0'.repeat(20)}`,
    '-----BEGIN PRIVATE KEY----- is the first line of such a file',
    '-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----',
    'AKIAtion, eyJ alone, xoxo-hugs-and-kisses',
    `data:image/png;base64,${of(400)}`,
  ])('ordinary text stays: %s', (text) => {
    expect(hideSecretLikeText(text)).toBe(text)
  })

  test('in pieces of any size it is what the whole would be', () => {
    const next = random(7)
    for (let round = 0; round < 200; round++) {
      const parts = Array.from(
        { length: 6 },
        () => keys[Math.floor(next() * keys.length)]?.[1] ?? '',
      )
      const text = parts
        .map((part, index) => (index % 2 ? ` word-${index}. ${part}` : part))
        .join('\n')
      const stream = new SecretLikeStream()
      let shown = ''
      for (let at = 0; at < text.length;) {
        const size = 1 + Math.floor(next() * 20)
        shown += stream.push(text.slice(at, at + size))
        at += size
      }
      expect(shown + stream.flush()).toBe(hideSecretLikeText(text))
    }
  })

  test('in pieces it knows the end of a word that was given out before, an escape too', () => {
    for (const [, key] of keys) {
      for (let size = 1; size < 9; size++) {
        const text = String.raw`{"log":"first\n${key}\tlast", "word${key}": "s\nsk"}`
        const stream = new SecretLikeStream()
        let shown = ''
        for (let at = 0; at < text.length; at += size)
          shown += stream.push(text.slice(at, at + size))
        expect(shown + stream.flush()).toBe(hideSecretLikeText(text))
      }
    }
  })

  test('a stream is behind only by what may become one', () => {
    const stream = new SecretLikeStream()
    expect(stream.push('All is well. ')).toBe('All is well. ')
    expect(stream.push('Use gh')).toBe('Use ')
    expect(stream.push('ost words')).toBe('ghost words')
  })

  test('a block that does not end is held back no further than a block can be long', () => {
    const stream = new SecretLikeStream()
    const text = `-----BEGIN NOTES-----\n${'a word '.repeat(4000)}`
    expect(stream.push(text)).toBe(text)
    expect(stream.push('more')).toBe('more')
  })

  test('hostile texts of a megabyte are read', () => {
    for (const piece of ['eyJ-', 'eyJ', 'sk-ant-', '-----BEGIN PRIVATE KEY-----', 'ghp_', '-'])
      expect(hideSecretLikeText(piece.repeat(1_000_000 / piece.length)).length).toBeGreaterThan(0)
  })
})

describe('[SEC10] in a session', () => {
  const github = keys[0]?.[1] ?? ''
  const label = '[secret-like:github]'

  test('a question is decided as it was asked; approval, record and events are without it', async () => {
    const world = await new RunWorld().begin()
    const { runId } = await world.prompt()
    if (runId === null) throw new Error('No run')
    const ask = await world.ask('bash', { command: `TOKEN=${github} rm -rf build` })
    const approval = await world.approval(world.approvalId(ask))
    expect(approval.details.risks).toContain('destructive')
    const kept = JSON.stringify([
      approval,
      await world.timeline(runId),
      await world.events('gate.asked'),
      world.sql.all('select * from approvals'),
      world.sql.all('select payload from outbox'),
    ])
    expect(kept).toContain(label)
    expect(kept).not.toContain(github)
    const [decision] = await world.entries(runId, 'permission-decision')
    expect(decision).toMatchObject({ hidden: true })
  })

  test('what is hidden from a record is not hidden from the policy', async () => {
    const world = await new RunWorld().begin()
    await world.prompt()
    const body = `${of(64)}\nrm -rf /\n`
    const command = `cat <<END\n-----BEGIN PRIVATE KEY-----\nEND\n${body}`
    const ask = await world.ask('bash', { command })
    expect(world.answerTo(ask)).not.toBe('allow')
  })

  test('an operation runs as it was asked for, and is shown without it', async () => {
    const world = await new RunWorld().begin()
    const { id: runId } = await world.createRun()
    const rule = { match: { category: 'shell' }, decision: 'allow' }
    await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules: [rule] }))
    const command = `./curl-like ${github}`
    const operation = await world.execute(runId, { ...operations.ask, command })
    expect(operation.operation.command).toBe(`./curl-like ${label}`)
    expect(JSON.stringify(world.executes())).toContain(github)
    expect(JSON.stringify(await world.timeline(runId))).not.toContain(github)
  })
})

describe('[CALL18] arguments that do not fit', () => {
  const everything = (session: TestSession) =>
    JSON.stringify([
      session.sql.all('select * from calls'),
      session.sql.all('select * from events'),
      session.sql.all('select * from outbox'),
      [...session.ledger.rows.values()],
    ])
  const envFile = (more: object) => ({
    files: [
      {
        workspacePath: '.',
        path: '.env',
        format: 'dotenv',
        mode: 'secret',
        keys: [{ key: 'API_KEY', required: true, ...more }],
      },
    ],
  })

  test('are kept without what does not fit: a value beside its name is nowhere', async () => {
    const session = new TestSession(gatewayTools)
    await session.create()
    const args = envFile({ value: 'quite-an-ordinary-word' })
    const answer = await session.call('save_env_files', 'a', args)
    expect(answer.body).toContain('Invalid arguments')
    await session.pass(1000)
    expect(everything(session)).not.toContain('quite-an-ordinary-word')
    const [call] = session.sql.all<{ args: string }>('select args from calls')
    expect(JSON.parse(call?.args ?? '')).toEqual(
      envFile({ value: '[not kept: text of 22 characters]' }),
    )
    // Compared as it was sent.
    expect((await session.call('save_env_files', 'a', args)).body).toBe(answer.body)
    const other = session.call('save_env_files', 'a', envFile({ value: 'another-ordinary-word' }))
    await expect(other).rejects.toMatchObject({ code: 'call_conflict' })
  })

  test('also where a value stands in place of a name, or of everything', async () => {
    const session = new TestSession(gatewayTools)
    await session.create()
    await session.call('save_env_files', 'b', envFile({ key: 'API_KEY=quite-an-ordinary-word' }))
    await session.call('save_env_files', 'c', { files: 'quite-an-ordinary-word' })
    await session.call('save_env_files', 'd', { env: { A: 'quite-an-ordinary-word' } })
    expect(everything(session)).not.toContain('quite-an-ordinary-word')
  })
})

describe('[SEC10] calls and events', () => {
  const github = keys[0]?.[1] ?? ''

  test('arguments and answers are kept without it, and compared as they were sent', async () => {
    const session = new TestSession()
    await session.create()
    const answer = await session.call('noop', 'a', { text: github })
    const kept = JSON.stringify(session.sql.all('select * from calls'))
    expect(kept).toContain('[secret-like:github]')
    expect(kept).not.toContain(github)
    expect((await session.call('noop', 'a', { text: github })).body).toBe(answer.body)
    const other = session.call('noop', 'a', { text: `ghp_${of(37)}` })
    await expect(other).rejects.toMatchObject({ code: 'call_conflict' })
  })

  test('a message is kept without it, also in pieces; a diff stays as it can be applied', async () => {
    const world = await new RunWorld().begin()
    const turn = await world.prompt()
    const part = { turnId: turn.id, sessionId: 's', messageId: 'm', partId: 'p', field: 'text' }
    const report = { patch: `+const key = '${github}'\n`, files: [], truncated: false }
    await world.emit(
      ['message.delta', { ...part, delta: `It is ${github.slice(0, 9)}` }],
      ['message.delta', { ...part, delta: `${github.slice(9)} indeed` }],
      ['message.text', { ...part, text: `It is ${github} indeed`, reasoning: false }],
      [
        'turn.ended',
        { turnId: turn.id, state: 'completed', reason: null, text: github, diff: report },
      ],
    )
    const shown = JSON.stringify(
      world.sql.all('select data from events where kind like ?', 'message%'),
    )
    expect(shown).toContain('It is [secret-like:github] indeed')
    expect(shown.replaceAll('[secret-like:github]', '')).not.toContain('ghp_')
    expect(world.sql.all('select text from turns')).toEqual([{ text: '[secret-like:github]' }])
    const [kept] = world.sql.all<{ report: string }>('select report from diff')
    expect(JSON.parse(kept?.report ?? '')).toMatchObject(report)
  })

  test('[CALL18] an event about a call has no value either', async () => {
    const world = await new RunWorld(gatewayTools).begin()
    const turn = await world.prompt()
    const part = { turnId: turn.id, sessionId: 's', messageId: 'm', partId: 'p', callId: 'c' }
    const input = { env: { A: 'quite-an-ordinary-word' } }
    await world.emit(['tool.started', { ...part, tool: 'save_env_files', input }])
    const shown = JSON.stringify(await world.events('tool.started'))
    expect(shown).toContain('[not kept: object]')
  })
})
