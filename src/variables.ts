import { z } from 'zod'
import { EnclosureMode, UnwalledApprovals } from './contract/enclosure.ts'
import { Firewall } from './contract/limits.ts'
import { ProviderName } from './contract/session.ts'
import { logLevels } from './core/ports.ts'
import {
  atLeast,
  firewall,
  httpUrl,
  localRepositories,
  secretBytes,
  secretKeys,
  url,
  whole,
} from './variable-forms.ts'

/** What docs/configuration.md says of a variable. */
export interface VariableText {
  about: string
  /** What a value looks like. */
  form: string
  /** Passes the schema. */
  example: string
  /** always, or the condition under which it must be set. Default: never. */
  needed?: string
  /** What happens while it is not set, where the schema has no default that says it. */
  unset?: string
  /** `npm start` makes its own and ignores the one of the shell. */
  ownOfStack?: true
}

const texts = new WeakMap<z.ZodType, VariableText>()

function variable<S extends z.ZodType>(schema: S, text: VariableText): S {
  texts.set(schema, text)
  return schema
}

const exampleKey = 'k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY='

/** Every variable that the control plane reads: what parses it, and what docs/configuration.md says of it. */
export const Environment = z.object({
  LIBSQL_URL: variable(url(/^(https?|libsql)$/), {
    about: 'The libSQL database: Turso, or a server of your own.',
    form: 'http, https or libsql URL',
    example: 'libsql://gantry-acme.turso.io',
    needed: 'always',
    ownOfStack: true,
  }),
  LIBSQL_TOKEN: variable(z.string().optional(), {
    about: 'The token of the database. It must allow writing.',
    form: 'text; secret',
    example: 'eyJhbGciOiJFZERTQSJ9.eyJhIjoicncifQ.c2lnbmF0dXJl',
    needed: 'the database asks for one',
    ownOfStack: true,
  }),
  GANTRY_ID_SECRET: variable(secretBytes(16), {
    about: 'Signs session ids. It cannot be changed: with another one all sessions are unknown.',
    form: 'base64 of at least 16 bytes; secret',
    example: 'MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=',
    needed: 'always',
    ownOfStack: true,
  }),
  GANTRY_TOKEN_KEYS: variable(
    secretKeys((bytes) => bytes >= 32, 'at least 32 bytes'),
    {
      about:
        'Signs the tokens of sandboxes. The first key signs, all are accepted. To rotate, put a new one in front and remove the old one after an hour.',
      form: 'kid:base64[,kid:base64], at least 32 bytes each; secret',
      example: exampleKey,
      needed: 'always',
      ownOfStack: true,
    },
  ),
  GANTRY_SEAL_KEYS: variable(
    secretKeys((bytes) => bytes === 32, '32 bytes'),
    {
      about:
        'Seals stored secrets and signs timelines. The first key seals, all open. To rotate, put a new one in front, call `POST /v1/secrets/reseal` for each organisation, and keep the old one until the last session made under it is deleted.',
      form: 'kid:base64[,kid:base64], 32 bytes each; secret',
      example: exampleKey,
      needed: 'always',
      ownOfStack: true,
    },
  ),
  GANTRY_EXPORT_KEYS: variable(secretKeys((bytes) => bytes === 32, '32 bytes').optional(), {
    about:
      'Signs exported runs, with Ed25519. The first key signs; the public halves of all are at `/.well-known/gantry-keys.json`. To rotate, put a new one in front and keep the old one as long as somebody may check what it has signed.',
    form: 'kid:base64[,kid:base64], 32 bytes each; secret',
    example: exampleKey,
    unset: '`GET /v1/runs/:id/bundle` is 503 `not_configured`; under `npm start` one is made',
    ownOfStack: true,
  }),
  GANTRY_PUBLIC_URL: variable(httpUrl, {
    about:
      'Where sandboxes reach the control plane. Sandboxes at E2B or Modal need an https address that the internet reaches.',
    form: 'http or https URL',
    example: 'https://gantry.example.com',
    needed: 'always',
  }),
  SANDBOX_HOST_URL: variable(httpUrl.optional(), {
    about: 'The sandbox host of the local provider.',
    form: 'http or https URL',
    example: 'http://127.0.0.1:4100',
    needed: 'SANDBOX_HOST_SECRET, SANDBOX_ROOT or GANTRY_DEFAULT_SANDBOX=local is set',
    ownOfStack: true,
  }),
  SANDBOX_HOST_SECRET: variable(z.string().optional(), {
    about: 'The secret of the sandbox host.',
    form: 'text; secret',
    example: '7d1c5b0e6f2a4938',
    needed: 'SANDBOX_HOST_URL is set',
    ownOfStack: true,
  }),
  SANDBOX_ROOT: variable(
    z.string().startsWith('/', { error: 'Must be an absolute path' }).optional(),
    {
      about: 'The folder in which the sandbox host keeps its sandboxes.',
      form: 'absolute path',
      example: '/var/lib/gantry/sandboxes',
      needed: 'SANDBOX_HOST_URL is set',
      ownOfStack: true,
    },
  ),
  GANTRY_LOCAL_REPOSITORIES: variable(localRepositories.optional(), {
    about:
      'What the sandbox host may clone with its own rights: repositories in these folders (by path or `file://`), and those below these ssh addresses, with the ssh agent of whoever runs the host. An admin must name the repository. https URLs need no entry.',
    form: 'absolute paths and ssh URLs, separated by commas',
    example: '/home/me/projects,ssh://git@github.com/acme',
    unset: 'https URLs only',
  }),
  GANTRY_DEFAULT_SANDBOX: variable(ProviderName.optional(), {
    about: 'The provider of sessions that name none.',
    form: 'local, e2b, modal or none',
    example: 'e2b',
    unset: 'the first that is configured of local, e2b, modal; else none',
  }),
  GANTRY_ENCLOSURE: variable(EnclosureMode.default('auto'), {
    about:
      'Whether OpenCode runs in namespaces of its own where the machine of a sandbox allows it. Sandboxes that start afterwards obey.',
    form: 'auto or off',
    example: 'off',
  }),
  OPENCODE_SNAPSHOT_PROOF_UPGRADE: variable(z.string().optional(), {
    about:
      "How far OpenCode's snapshots are used to prove what its tools have changed. `off` (or `0`): they are not read. `shadow`: they are read and counted, and nothing else follows. `single-change`: a change that stands alone in its step gets its two texts. `full`: chains of changes, too. Any other word is `shadow`.",
    form: 'off, shadow, single-change or full',
    example: 'full',
    unset: 'shadow',
  }),
  GANTRY_UNWALLED_APPROVALS: variable(UnwalledApprovals.default('refuse'), {
    about:
      'Whether people may approve what a sandbox asks whose enclosure is `none`. Where it runs beside the keys, its agent can read them and answer itself. `npm start` asks for it once, and keeps the answer in its state folder; the variable wins.',
    form: 'accept or refuse',
    example: 'accept',
  }),
  GANTRY_PRIVATE_HOSTS: variable(z.string().default(''), {
    about:
      'What enclosed sandboxes may ask to reach though it is not on the internet, such as a database of your own. All other private, loopback and metadata addresses are refused.',
    form: 'host:port[,host:port]',
    example: 'db.internal:5432,10.0.0.7:443',
    unset: 'none',
  }),
  GANTRY_E2B_API_KEY: variable(atLeast(8), {
    about:
      'The account at E2B for organisations that have none of their own. `sandbox-agent/e2b/README.md` says how to build the template.',
    form: 'text of at least 8 characters; secret',
    example: 'e2b_0123456789abcdef',
  }),
  GANTRY_E2B_API_URL: variable(httpUrl.optional(), {
    about: 'Another address of the API of E2B.',
    form: 'http or https URL',
    example: 'https://api.e2b.app',
    unset: 'https://api.e2b.app',
  }),
  GANTRY_E2B_SANDBOX_URL: variable(httpUrl.optional(), {
    about: 'One address for the daemons of all sandboxes at E2B.',
    form: 'http or https URL',
    example: 'https://e2b-sandboxes.example.com',
    unset: 'the address that E2B gives to each sandbox',
  }),
  GANTRY_E2B_TEMPLATE: variable(z.string().max(200).default('gantry'), {
    about: 'The template at E2B, by name or id.',
    form: 'text of at most 200 characters',
    example: 'gantry',
  }),
  GANTRY_MODAL_URL: variable(httpUrl.optional(), {
    about:
      'The deployed app at Modal, for organisations that have none of their own: `sandbox-agent/modal/README.md`.',
    form: 'http or https URL',
    example: 'https://acme--gantry-web.modal.run',
    needed: 'GANTRY_MODAL_SECRET is set',
  }),
  GANTRY_MODAL_SECRET: variable(atLeast(8), {
    about: 'The secret of the app at Modal.',
    form: 'text of at least 8 characters; secret',
    example: '7d1c5b0e6f2a4938',
    needed: 'GANTRY_MODAL_URL is set',
  }),
  GANTRY_DEPLOYMENT_LABEL: variable(
    z
      .string()
      .regex(/^[a-z0-9-]{1,40}$/, {
        error: 'Must be lower-case letters, digits and "-", at most 40',
      })
      .default('gantry'),
    {
      about:
        'Marks everything that this deployment makes at a provider. Two deployments that share an account need different ones, else each ends the other’s sandboxes.',
      form: 'lower-case letters, digits and "-", at most 40',
      example: 'gantry-production',
    },
  ),
  ANTHROPIC_API_KEY: variable(z.string().optional(), {
    about: 'The key for models of Anthropic. It stays in the control plane.',
    form: 'text; secret',
    example: 'sk-ant-0123456789abcdef',
  }),
  ANTHROPIC_BASE_URL: variable(httpUrl.default('https://api.anthropic.com'), {
    about: 'Another address of the API of Anthropic.',
    form: 'http or https URL',
    example: 'https://api.anthropic.com',
  }),
  GANTRY_MODEL_BASE_URL: variable(httpUrl.optional(), {
    about: 'Any OpenAI-compatible model server, such as LiteLLM, with its `/v1`.',
    form: 'http or https URL',
    example: 'https://litellm.example.com/v1',
    needed: 'GANTRY_MODEL_API_KEY is set',
  }),
  GANTRY_MODEL_API_KEY: variable(z.string().optional(), {
    about: 'The key of that server. It stays in the control plane.',
    form: 'text; secret',
    example: 'sk-0123456789abcdef',
    needed: 'GANTRY_MODEL_BASE_URL is set',
  }),
  GANTRY_MODEL: variable(z.string().optional(), {
    about:
      'Models of that server, beside those of the table. The first is the model of sessions that name none.',
    form: 'names, separated by commas',
    example: 'qwen3-coder,glm-5',
    needed: 'GANTRY_MODEL_BASE_URL is set and `npm start` runs',
    unset: 'with ANTHROPIC_API_KEY the default of the table',
  }),
  GANTRY_MODEL_EXTRAS: variable(z.string().optional(), {
    about:
      'Fields of model requests, and tools that run at the vendor, which sandboxes may use beside the usual ones. A tool is named without the date of its version. What a vendor charges beside tokens is not in any budget.',
    form: 'names, separated by commas',
    example: 'web_search,web_search_options',
    unset: 'none: such a call is 403 `model_refused`',
  }),
  RATE_LIMIT_PER_MINUTE: variable(whole(1, 3000), {
    about:
      'Requests of one key, and of one sandbox, in one minute, per instance of the control plane.',
    form: 'whole number from 1',
    example: '600',
  }),
  GANTRY_LIMITS: variable(
    firewall.default(() => Firewall.parse({})),
    {
      about:
        'What bounds the sandboxes of every organisation, as in `GET /v1/limits`; `prices` is in USD for one hour of one sandbox. `modelCallsPerMinute` and `concurrentModelCalls` bound the model calls of each session.',
      form: 'JSON object',
      example: '{"concurrentSandboxes": 20, "moneyPerDay": 50, "prices": {"e2b": 0.17}}',
    },
  ),
  GANTRY_OPERATOR_KEY: variable(atLeast(32), {
    about: 'The bearer that may stop the whole deployment.',
    form: 'text of at least 32 characters; secret',
    example: 'go_0123456789abcdefghijklmnopqrstuv',
    unset: 'nobody may; under `npm start` one is made',
  }),
  RETENTION_DAYS: variable(whole(1, 30), {
    about: 'How long a closed session is kept.',
    form: 'whole number from 1',
    example: '90',
  }),
  GANTRY_LOG_LEVEL: variable(
    z.enum(logLevels, { error: `Must be one of ${logLevels.join(', ')}` }).default('info'),
    { about: 'Log lines below it are not written.', form: logLevels.join(', '), example: 'warn' },
  ),
  GANTRY_CRASH_URL: variable(httpUrl.optional(), {
    about: 'For crash tests only: a server that is asked at each crash point.',
    form: 'http or https URL',
    example: 'http://127.0.0.1:4200',
  }),
})
export type Environment = z.output<typeof Environment>

export type VariableName = keyof typeof Environment.shape
export const variableNames = Object.keys(Environment.shape) as VariableName[]

export function variableText(name: VariableName): VariableText {
  const text = texts.get(Environment.shape[name])
  if (text === undefined) throw new Error(`Variable "${name}" has no text`)
  return text
}
