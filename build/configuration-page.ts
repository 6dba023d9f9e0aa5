import {
  Environment,
  variableText,
  type VariableName,
  variableNames,
  type VariableText,
} from '../src/variables.ts'
import { table } from './markdown.ts'

interface Row extends Pick<VariableText, 'about' | 'form' | 'example' | 'needed'> {
  name: string
  unset: string
}

/** Those that one program reads for itself. */
export const programVariables: { program: string; rows: Row[] }[] = [
  {
    program: 'The Deno host (`deno task serve`), beside those of the control plane',
    rows: [
      {
        name: 'GANTRY_DATA_DIR',
        about: 'The folder of the sessions. Only one process may use it.',
        form: 'path',
        example: '/var/lib/gantry',
        needed: 'always',
        unset: '',
      },
      {
        name: 'GANTRY_HOST',
        about: 'The address on which it listens. It speaks http: put a server with TLS before it.',
        form: 'IP address',
        example: '0.0.0.0',
        unset: '127.0.0.1',
      },
      {
        name: 'PORT',
        about: 'The port on which it listens.',
        form: 'port number',
        example: '8787',
        unset: '8787',
      },
    ],
  },
  {
    program: '`npm start` and `npm run libsql`',
    rows: [
      {
        name: 'GANTRY_STATE_DIR',
        about:
          'The folder with keys, data and logs of the local stack. `deno task start` keeps its own in the folder `deno` of it.',
        form: 'path',
        example: '/home/ada/gantry-state',
        unset: '.gantry in the checkout; .gantry/dev for `npm run libsql`',
      },
      {
        name: 'GANTRY_DEBUG',
        about: 'Errors of the start are printed with their stack.',
        form: 'any text',
        example: '1',
        unset: 'off',
      },
    ],
  },
  {
    program: '`npm run conformance`',
    rows: [
      {
        name: 'GANTRY_KEY',
        about: 'The admin key, instead of `--key`.',
        form: 'gk_ and 32 characters; secret',
        example: 'gk_0123456789abcdefghijklmnopqrstuv',
        unset: '',
      },
    ],
  },
]

/** docs/configuration.md. */
export function configurationPage(): string {
  return [
    '# Configuration',
    'Generated from `src/variables.ts` by `npm run docs`: do not edit.',
    [
      'Every variable is text. An empty one counts as not set. On Cloudflare they are secrets of the Worker',
      '(`npm run wrangler -- deploy --secrets-file`), under `wrangler dev` they are lines of `.dev.vars`, and under Deno',
      'they are the environment of the process. `npm run admin -- check --vars FILE` says what is missing.',
      'The values of all that are marked secret are in no log and no answer.',
    ].join('\n'),
    '## The control plane',
    tableOf(variableNames.map(rowOf)),
    [
      '`npm start` makes these itself and ignores those of the shell:',
      `${ownOfStack.map((name) => `\`${name}\``).join(', ')}.`,
      'It passes every other one on. Without a model key it sets `GANTRY_MODEL_BASE_URL`, `GANTRY_MODEL_API_KEY` and',
      '`GANTRY_MODEL` for the [scripted model](scripted-model.md).',
    ].join('\n'),
    ...programVariables.flatMap(({ program, rows }) => [`## ${program}`, tableOf(rows)]),
  ]
    .join('\n\n')
    .concat('\n')
}

const ownOfStack = variableNames.filter((name) => variableText(name).ownOfStack)

function rowOf(name: VariableName): Row {
  const text = variableText(name)
  return { ...text, name, unset: text.unset ?? defaultOf(name) }
}

function defaultOf(name: VariableName): string {
  const { data } = Environment.shape[name].safeParse(undefined)
  if (data === undefined) return ''
  return code(typeof data === 'object' ? JSON.stringify(data) : String(data))
}

function tableOf(rows: Row[]): string {
  return table(
    ['Variable', 'For', 'Form', 'Needed', 'If not set', 'Example'],
    rows.map((row) => [
      code(row.name),
      row.about,
      row.form,
      neededText(row.needed),
      row.unset,
      code(row.example),
    ]),
  )
}

function neededText(needed: string | undefined): string {
  if (needed === undefined) return 'no'
  return needed === 'always' ? 'always' : `if ${needed}`
}

const code = (text: string) => `\`${text}\``
