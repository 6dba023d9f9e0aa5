import { describe, expect, test } from 'vitest'
import { allModes, type Mode } from '../../src/contract/mode.ts'
import type { ToolDefinition } from '../../src/contract/tool.ts'
import {
  automationCompleteTool,
  contractTools,
  findContractTool,
  requestEnvVariablesTool,
  saveEnvFilesTool,
  saveServiceCommandsTool,
  saveSnapshotTool,
  toolFileName,
  toolJsonSchema,
  toolRefusal,
  toolsForMode,
  verifyTool,
} from '../../src/contract/tools.ts'

const names = contractTools.map((tool) => tool.name)

describe('availability', () => {
  const available: Record<Mode, string[]> = {
    scratch: ['verify', 'save_snapshot', 'request_env_variables'],
    setup: [
      'verify',
      'save_snapshot',
      'save_service_commands',
      'save_env_files',
      'request_env_variables',
    ],
    automation: ['verify', 'save_snapshot', 'automation.complete', 'request_env_variables'],
    coding: ['verify', 'save_snapshot', 'request_env_variables'],
  }
  const cells = allModes.flatMap((mode) => names.map((name) => [mode, name] as const))

  test.each(cells)('%s x %s', (mode, name) => {
    const has = available[mode].includes(name)
    expect(toolsForMode(mode).some((tool) => tool.name === name)).toBe(has)
    const refusal = toolRefusal(findContractTool(name)!, { mode })
    if (has) expect(refusal).toBeNull()
    else expect(refusal).toMatch(/ sessions only; this is a /)
  })

  test('six tools, one of them in the sandbox', () => {
    expect(names).toEqual([
      'verify',
      'save_snapshot',
      'save_service_commands',
      'save_env_files',
      'automation.complete',
      'request_env_variables',
    ])
    const local = contractTools.filter((tool) => tool.domain === 'sandbox')
    expect(local.map((tool) => tool.name)).toEqual(['request_env_variables'])
    expect(local.every((tool) => tool.localAnswer)).toBe(true)
  })

  test('both names of the completion tool lead to one definition and one file', () => {
    expect(findContractTool('automation_complete')).toBe(automationCompleteTool)
    expect(findContractTool('automation.complete')).toBe(automationCompleteTool)
    expect(toolFileName(automationCompleteTool)).toBe('automation_complete')
    expect(findContractTool('toString')).toBeUndefined()
  })

  test.each(contractTools)('$name: file name, description, guidance', (tool) => {
    expect(toolFileName(tool)).toMatch(/^[a-z_]+$/)
    expect(tool.description.length).toBeGreaterThan(20)
    expect(tool.guidance.length).toBeGreaterThan(100)
  })
})

const accepts = (tool: ToolDefinition, args: unknown) => tool.args.safeParse(args).success
const text = (length: number) => 'x'.repeat(length)
const list = <T>(length: number, item: T) => Array.from({ length }, () => item)
/** Below, at and above each bound. */
const bounds = (min: number, max: number): [number, boolean][] =>
  [
    [min - 1, false],
    [min, true],
    [max, true],
    [max + 1, false],
  ].filter(([size]) => (size as number) >= 0) as [number, boolean][]

describe('limits', () => {
  const command = { name: 'web', command: 'npm start' }
  const commands = (changes: object) => ({ commands: [{ ...command, ...changes }] })
  const key = { key: 'TOKEN', required: true }
  const file = { path: '.env', format: 'dotenv', mode: 'secret', keys: [key] }
  const files = (changes: object) => ({ files: [{ ...file, ...changes }] })
  const run = { run_id: 'run_1', completion_id: 'c1', outcome: 'succeeded' }

  const rows: [string, ToolDefinition, (size: number) => unknown, [number, boolean][]][] = [
    ['verify folder', verifyTool, (n) => ({ folder: text(n) }), bounds(1, 500)],
    ['save_snapshot message', saveSnapshotTool, (n) => ({ message: text(n) }), bounds(0, 1000)],
    ['commands', saveServiceCommandsTool, (n) => ({ commands: list(n, command) }), bounds(1, 10)],
    ['command name', saveServiceCommandsTool, (n) => commands({ name: text(n) }), bounds(1, 100)],
    ['command', saveServiceCommandsTool, (n) => commands({ command: text(n) }), bounds(1, 1000)],
    ['command cwd', saveServiceCommandsTool, (n) => commands({ cwd: text(n) }), bounds(0, 500)],
    [
      'command workspacePath',
      saveServiceCommandsTool,
      (n) => commands({ workspacePath: text(n) }),
      bounds(0, 500),
    ],
    ['files', saveEnvFilesTool, (n) => ({ files: list(n, file) }), bounds(1, 10)],
    ['file path', saveEnvFilesTool, (n) => files({ path: text(n) }), bounds(1, 500)],
    [
      'file workspacePath',
      saveEnvFilesTool,
      (n) => files({ workspacePath: text(n) }),
      bounds(0, 500),
    ],
    ['file keys', saveEnvFilesTool, (n) => files({ keys: list(n, key) }), bounds(1, 50)],
    [
      'file key',
      saveEnvFilesTool,
      (n) => files({ keys: [{ ...key, key: text(n) }] }),
      bounds(1, 200),
    ],
    ['run_id', automationCompleteTool, (n) => ({ ...run, run_id: text(n) }), bounds(1, 200)],
    [
      'completion_id',
      automationCompleteTool,
      (n) => ({ ...run, completion_id: text(n) }),
      bounds(1, 200),
    ],
    ['summary', automationCompleteTool, (n) => ({ ...run, summary: text(n) }), bounds(0, 20_000)],
    [
      'request keys',
      requestEnvVariablesTool,
      (n) => ({ keys: list(n, { key: 'A' }) }),
      bounds(1, 50),
    ],
    ['request key', requestEnvVariablesTool, (n) => ({ keys: [{ key: text(n) }] }), bounds(1, 200)],
    [
      'request suggestions',
      requestEnvVariablesTool,
      (n) => ({ keys: [{ key: 'A', suggestions: list(n, 'x') }] }),
      bounds(0, 10),
    ],
  ]
  const cases = rows.flatMap(([name, tool, args, sizes]) =>
    sizes.map(([size, ok]) => ({ name, size, ok, tool, args: args(size) })),
  )
  test.each(cases)('$name of $size: $ok', ({ tool, args, ok }) => {
    expect(accepts(tool, args)).toBe(ok)
  })

  const paths: [string, boolean][] = [
    ['.env', true],
    ['apps/web/.env.local', true],
    ['a..b', true],
    ['a/..b/c..', true],
    ['./.env', true],
    ['ab:c', true],
    ['/etc/passwd', false],
    ['..', false],
    ['../.env', false],
    ['a/../../b', false],
    ['a/..', false],
    ['a\\b', false],
    ['..\\b', false],
    ['C:', false],
    ['c:/b', false],
    ['C:b', false],
    ['\\\\host\\share', false],
    ['a\u0000b', false],
    ['a\ud800', false],
  ]
  test.each(paths)('path %j: %s', (path, ok) => {
    expect(accepts(saveEnvFilesTool, files({ path }))).toBe(ok)
    expect(accepts(saveEnvFilesTool, files({ workspacePath: path }))).toBe(ok)
    expect(accepts(saveServiceCommandsTool, commands({ workspacePath: path }))).toBe(ok)
    expect(accepts(saveServiceCommandsTool, commands({ cwd: path }))).toBe(ok)
  })

  test('workspacePath is "." unless given', () => {
    expect(
      saveServiceCommandsTool.args.parse({ commands: [command] }).commands[0]?.workspacePath,
    ).toBe('.')
    expect(saveEnvFilesTool.args.parse({ files: [file] }).files[0]?.workspacePath).toBe('.')
  })

  test.each([
    ['format', files({ format: 'json' })],
    ['no format', files({ format: undefined })],
    ['mode', files({ mode: 'plain' })],
    ['no mode', files({ mode: undefined })],
    ['no required', files({ keys: [{ key: 'A' }] })],
    ['a value', files({ keys: [{ ...key, value: 'hunter2' }] })],
    ['no keys', files({ keys: undefined })],
    ['an unknown field', files({ extra: 1 })],
    ['a key with a line end', files({ keys: [{ key: 'A\nB', required: true }] })],
    ['a key with =', files({ keys: [{ key: 'A=B', required: true }] })],
    ['no files', {}],
    ['files as text', { files: '.env' }],
  ])('save_env_files refuses %s', (_name, args) => {
    expect(accepts(saveEnvFilesTool, args)).toBe(false)
  })

  describe('automation.complete', () => {
    test.each(['succeeded', 'failed', 'needs_human'])('outcome %s', (outcome) => {
      expect(accepts(automationCompleteTool, { ...run, outcome })).toBe(true)
    })
    test.each(['done', '', 'SUCCEEDED', null, undefined])(
      'outcome %j is refused, not guessed',
      (outcome) => {
        expect(accepts(automationCompleteTool, { ...run, outcome })).toBe(false)
      },
    )
    test.each([
      { run_id: 'r', completion_id: 'c' },
      { runId: 'r', completion_id: 'c' },
      { run_id: 'r', completionId: 'c' },
      { runId: 'r', completionId: 'c' },
      { run_id: 'r', runId: 'r', completion_id: 'c', completionId: 'c' },
    ])('%j folds to one spelling', (ids) => {
      expect(automationCompleteTool.args.parse({ ...ids, outcome: 'failed' })).toEqual({
        run_id: 'r',
        completion_id: 'c',
        outcome: 'failed',
      })
    })
    test.each([
      { run_id: 'r', runId: 'other', completion_id: 'c' },
      { completion_id: 'c' },
      { run_id: 'r' },
      { run_id: 'r', completion_id: 7 },
      { run_id: 'r', completion_id: 'a\nb' },
    ])('%j is refused', (ids) => {
      expect(accepts(automationCompleteTool, { ...ids, outcome: 'failed' })).toBe(false)
    })
    test.each([null, [], 'text', 7])('%j is refused', (args) => {
      expect(accepts(automationCompleteTool, args)).toBe(false)
    })
  })

  test('request_env_variables fills in type, required and suggestions', () => {
    const keys = [
      { key: 'A', suggestions: ['x', { label: 'y' }] },
      { key: 'B', type: 'env', required: false },
    ]
    expect(requestEnvVariablesTool.args.parse({ keys })).toEqual({
      keys: [
        {
          key: 'A',
          type: 'secret',
          required: true,
          suggestions: [{ label: 'x', value: 'x' }, { label: 'y' }],
        },
        { key: 'B', type: 'env', required: false, suggestions: [] },
      ],
    })
  })
})

describe('JSON schema', () => {
  const required: Record<string, string[]> = {
    verify: [],
    save_snapshot: [],
    save_service_commands: ['commands'],
    save_env_files: ['files'],
    'automation.complete': ['run_id', 'completion_id', 'outcome'],
    request_env_variables: ['keys'],
  }
  test.each(contractTools)('$name is an object with its required fields', (tool) => {
    const schema = toolJsonSchema(tool)
    expect(schema.type).toBe('object')
    expect(schema.required ?? []).toEqual(required[tool.name])
    expect(JSON.parse(JSON.stringify(schema))).toEqual(schema)
  })

  test('what has a default is not required of the model, what is mandatory is', () => {
    const schema = JSON.stringify(toolJsonSchema(saveEnvFilesTool))
    expect(schema).toContain('"required":["path","format","mode","keys"]')
    expect(schema).toContain('"required":["key","required"]')
  })
})
