import { expect, test } from 'vitest'
import { modelEnvironment, passedEnvironment } from '../../local/stack/environment.ts'
import { exampleSecret, parseConfig, readConfig } from '../../src/config.ts'
import { variableText, variableNames } from '../../src/variables.ts'

const secret = (bytes: number, fill = 7) => Buffer.alloc(bytes, fill).toString('base64')
const least = {
  LIBSQL_URL: 'http://127.0.0.1:8080/',
  GANTRY_ID_SECRET: secret(32),
  GANTRY_TOKEN_KEYS: `a:${secret(32)},b:${secret(48, 8)}`,
  GANTRY_SEAL_KEYS: `s:${secret(32)}`,
  GANTRY_PUBLIC_URL: 'http://127.0.0.1:8787/',
}

test('the least environment has defaults for the rest', () => {
  const config = parseConfig({ ...least, SANDBOX_HOST_URL: '', UNRELATED: 'x' })
  expect(config).toMatchObject({
    libsql: { url: 'http://127.0.0.1:8080', token: null },
    publicUrl: 'http://127.0.0.1:8787',
    sandboxHost: null,
    e2b: null,
    modal: null,
    deploymentLabel: 'gantry',
    defaultSandbox: 'none',
    models: { anthropic: null, litellm: null },
    extraModels: [],
    rateLimitPerMinute: 3000,
    firewall: { breakerFailures: 5, reconcileSeconds: 60, graceSeconds: 120 },
    operatorKey: null,
    retentionDays: 30,
    crashUrl: null,
  })
  expect(config.tokenKeys.map(({ id, secret }) => [id, secret.length])).toEqual([
    ['a', 32],
    ['b', 48],
  ])
})

test('a whole environment', () => {
  const config = parseConfig({
    ...least,
    LIBSQL_TOKEN: 't',
    SANDBOX_HOST_URL: 'http://127.0.0.1:1',
    SANDBOX_HOST_SECRET: 'h',
    SANDBOX_ROOT: '/var/sandboxes',
    GANTRY_DEFAULT_SANDBOX: 'local',
    GANTRY_E2B_API_KEY: 'e2b_key_of_ours',
    GANTRY_E2B_API_URL: 'http://127.0.0.1:3/',
    GANTRY_MODAL_URL: 'http://127.0.0.1:4/',
    GANTRY_MODAL_SECRET: 'modal secret',
    GANTRY_DEPLOYMENT_LABEL: 'stage-1',
    ANTHROPIC_API_KEY: 'ak',
    GANTRY_MODEL_BASE_URL: 'http://127.0.0.1:2/v1',
    GANTRY_MODEL_API_KEY: 'mk',
    GANTRY_MODEL: 'scripted',
    RATE_LIMIT_PER_MINUTE: '10',
    GANTRY_LIMITS: '{"moneyPerDay": 5, "prices": {"modal": 0.3}}',
    GANTRY_OPERATOR_KEY: 'o'.repeat(32),
  })
  expect(config).toMatchObject({
    libsql: { token: 't' },
    sandboxHost: { url: 'http://127.0.0.1:1', secret: 'h', root: '/var/sandboxes' },
    e2b: { apiKey: 'e2b_key_of_ours', apiUrl: 'http://127.0.0.1:3', template: 'gantry' },
    modal: { url: 'http://127.0.0.1:4', secret: 'modal secret' },
    deploymentLabel: 'stage-1',
    defaultSandbox: 'local',
    models: {
      anthropic: { baseUrl: 'https://api.anthropic.com', apiKey: 'ak' },
      litellm: { baseUrl: 'http://127.0.0.1:2/v1', apiKey: 'mk' },
    },
    rateLimitPerMinute: 10,
    firewall: { moneyPerDay: 5, prices: { modal: 0.3 }, graceSeconds: 120 },
    operatorKey: 'o'.repeat(32),
  })
})

const e2b = { GANTRY_E2B_API_KEY: 'e2b_key_of_ours' }
const modal = { GANTRY_MODAL_URL: 'http://modal.test', GANTRY_MODAL_SECRET: 'modal secret' }
const host = {
  SANDBOX_HOST_URL: 'http://host.test',
  SANDBOX_HOST_SECRET: 'h',
  SANDBOX_ROOT: '/var/sandboxes',
}
for (const [what, variables, provider] of [
  ['nothing', {}, 'none'],
  ['E2B', e2b, 'e2b'],
  ['Modal', modal, 'modal'],
  ['a sandbox host', host, 'local'],
  ['E2B and Modal', { ...modal, ...e2b }, 'e2b'],
  ['everything', { ...modal, ...e2b, ...host }, 'local'],
  ['E2B, with another default', { ...e2b, GANTRY_DEFAULT_SANDBOX: 'none' }, 'none'],
] as const) {
  test(`[OPS4] with ${what} configured the default sandbox is ${provider}`, () => {
    expect(parseConfig({ ...least, ...variables }).defaultSandbox).toBe(provider)
  })
}

test('[OPS5] the secrets of the example are for loopback only', () => {
  const example = Buffer.from(exampleSecret).toString('base64')
  const secrets = {
    GANTRY_ID_SECRET: example,
    GANTRY_TOKEN_KEYS: `own:${secret(32)},dev:${example}`,
    GANTRY_SEAL_KEYS: `dev:${example}`,
  }
  expect(readConfig({ ...least, ...secrets }).problems).toEqual([])
  const deployed = { ...least, GANTRY_PUBLIC_URL: 'https://gantry.example.com' }
  expect(readConfig(deployed).problems).toEqual([])
  const { problems } = readConfig({ ...deployed, ...secrets })
  expect(problems.map(({ name }) => name)).toEqual(Object.keys(secrets))
})

test('every problem is found at once', () => {
  const { problems } = readConfig({ RETENTION_DAYS: '0', SANDBOX_ROOT: 'relative' })
  expect(problems.map(({ name }) => name)).toEqual([
    'LIBSQL_URL',
    'GANTRY_ID_SECRET',
    'GANTRY_TOKEN_KEYS',
    'GANTRY_SEAL_KEYS',
    'GANTRY_PUBLIC_URL',
    'SANDBOX_ROOT',
    'RETENTION_DAYS',
    'SANDBOX_HOST_URL',
    'SANDBOX_HOST_SECRET',
  ])
})

for (const [name, value, message] of [
  ['LIBSQL_URL', undefined, 'LIBSQL_URL: is not set'],
  ['LIBSQL_URL', 'hunter2', 'LIBSQL_URL: Must be a URL'],
  ['GANTRY_ID_SECRET', 'hunter2!', 'GANTRY_ID_SECRET: Must be base64'],
  ['GANTRY_ID_SECRET', secret(8), 'GANTRY_ID_SECRET: Must be base64 of at least 16'],
  ['GANTRY_TOKEN_KEYS', 'hunter2', 'GANTRY_TOKEN_KEYS: Must be "kid:base64'],
  ['GANTRY_TOKEN_KEYS', `a:${secret(32)},a:${secret(32)}`, 'GANTRY_TOKEN_KEYS: Must be'],
  ['GANTRY_SEAL_KEYS', `a:${secret(31)}`, 'GANTRY_SEAL_KEYS: Must be'],
  ['GANTRY_DEFAULT_SANDBOX', 'hunter2', 'GANTRY_DEFAULT_SANDBOX'],
  ['GANTRY_DEFAULT_SANDBOX', 'local', 'SANDBOX_HOST_URL: is needed'],
  ['SANDBOX_HOST_URL', 'http://x', 'SANDBOX_HOST_SECRET: is needed with SANDBOX_HOST_URL'],
  ['GANTRY_MODEL_BASE_URL', 'http://x', 'GANTRY_MODEL_API_KEY: is needed'],
  ['GANTRY_MODAL_URL', 'http://x', 'GANTRY_MODAL_SECRET: is needed'],
  ['GANTRY_MODAL_SECRET', 'hunter2', 'GANTRY_MODAL_SECRET: Must have at least 8'],
  ['GANTRY_E2B_API_KEY', 'hunter2', 'GANTRY_E2B_API_KEY: Must have at least 8'],
  ['GANTRY_DEPLOYMENT_LABEL', 'Hunter 2', 'GANTRY_DEPLOYMENT_LABEL: Must be lower-case'],
  ['RATE_LIMIT_PER_MINUTE', 'hunter2', 'RATE_LIMIT_PER_MINUTE: Must be a number'],
  ['GANTRY_LIMITS', 'hunter2', 'GANTRY_LIMITS: Must be a JSON object'],
  [
    'GANTRY_LIMITS',
    '{"moneyPerDay":"hunter2"}',
    'GANTRY_LIMITS: Must be a JSON object of limits, wrong at "moneyPerDay"',
  ],
  ['GANTRY_OPERATOR_KEY', 'hunter2', 'GANTRY_OPERATOR_KEY: Must have at least 32'],
] as const) {
  test(`${name}=${value ?? ''} is refused by name, without its value`, () => {
    const parse = () => parseConfig({ ...least, [name]: value })
    expect(parse).toThrow(message)
    expect(parse).not.toThrow('hunter2')
  })
}

test('[OPS7] npm start passes on every variable, but for those that it makes itself', () => {
  const shell = Object.fromEntries(variableNames.map((name) => [name, variableText(name).example]))
  const passed = { ...passedEnvironment(shell), ...modelEnvironment(shell) }
  const own = variableNames.filter((name) => variableText(name).ownOfStack)
  expect(own).toContain('LIBSQL_URL')
  expect([...Object.keys(passed), ...own].sort()).toEqual([...variableNames].sort())
  expect(passed).toMatchObject({ GANTRY_LIMITS: shell['GANTRY_LIMITS'] })
  expect(passedEnvironment({ GANTRY_LIMITS: '' })).toEqual({})
})
