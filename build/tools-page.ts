import type { z } from 'zod'
import type { ContractTool } from '../src/contract/tool.ts'
import { contractTools, toolFileName, toolJsonSchema } from '../src/contract/tools.ts'
import { table } from './markdown.ts'

type Schema = z.core.JSONSchema.JSONSchema

interface Argument {
  path: string
  required: boolean
  schema: Schema
}

/** The page on the agent contract's tools, all of it from the module that the tools themselves are made from. */
export function toolsPage(): string {
  return [
    '# Tools of the agent contract',
    'Generated from `src/contract/tools.ts` by `npm run docs`: do not edit.',
    overview(),
    ...contractTools.map(section),
  ].join('\n\n')
}

function overview(): string {
  const rows = contractTools.map((tool) => [
    `[\`${tool.name}\`](#${tool.name.replaceAll('.', '')})`,
    tool.modes.join(', '),
    domainOf(tool),
    tool.description,
  ])
  return table(['Tool', 'Modes', 'Runs', 'For'], rows)
}

function section(tool: ContractTool): string {
  const facts = [
    `- Name for the model: \`${toolFileName(tool)}\``,
    `- Aliases: ${tool.aliases.map((alias) => `\`${alias}\``).join(', ') || 'none'}`,
    `- Modes: ${tool.modes.join(', ')}`,
    `- Runs: ${domainOf(tool)}`,
    tool.localAnswer === undefined
      ? `- Call id: ${tool.callIdFrom === undefined ? 'a fresh one per call' : `the argument \`${tool.callIdFrom}\``}`
      : `- Answers at once: "${tool.localAnswer}"`,
  ]
  const rows = argumentsOf(toolJsonSchema(tool)).map(({ path, required, schema }) => [
    `\`${path}\``,
    typeOf(schema),
    required ? 'yes' : 'no',
    limitsOf(schema),
    schema.description ?? '',
  ])
  const head = ['Argument', 'Type', 'Required', 'Limits', 'Meaning']
  return [
    `## ${tool.name}`,
    tool.description,
    facts.join('\n'),
    table(head, rows),
    'Guidance that the model gets:',
    tool.guidance.replaceAll(/^/gm, '> ').replaceAll('\n', '\n>\n'),
    '',
  ]
    .join('\n\n')
    .trimEnd()
    .concat(tool === contractTools.at(-1) ? '\n' : '')
}

const domainOf = ({ domain }: ContractTool) =>
  domain === 'gateway' ? 'in the control plane' : 'in the sandbox'

/** Depth first: what is inside an argument follows it, with its path. */
function argumentsOf(schema: Schema, prefix = ''): Argument[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    const inner = property as Schema
    const path = `${prefix}${name}`
    const required = schema.required?.includes(name) === true
    return [{ path, required, schema: inner }, ...elementsOf(inner, path)]
  })
}

function elementsOf(schema: Schema, path: string): Argument[] {
  if (schema.type === 'object') return argumentsOf(schema, `${path}.`)
  const { items } = schema as { items?: Schema }
  if (items === undefined) return []
  return choicesOf(items).flatMap((each) => argumentsOf(each, `${path}[].`))
}

const choicesOf = (schema: Schema) => schema.anyOf ?? [schema]

function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``
  if (schema.enum) return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(' or ')
  if (schema.anyOf) return choicesOf(schema).map(typeOf).join(' or ')
  const { items } = schema as { items?: Schema }
  return items === undefined ? String(schema.type) : `list of ${typeOf(items)}`
}

function limitsOf(schema: Schema): string {
  const { items } = schema as { items?: Schema }
  const parts = [
    range(schema.minLength, schema.maxLength, 'characters'),
    range(schema.minItems, schema.maxItems, 'entries'),
    ...(items === undefined
      ? []
      : choicesOf(items).map((each) => {
          const limits = range(each.minLength, each.maxLength, 'characters')
          return limits && `each text ${limits}`
        })),
    schema.default === undefined ? '' : `default \`${JSON.stringify(schema.default)}\``,
  ]
  return parts.filter((part) => part !== '').join('; ')
}

function range(min: number | undefined, max: number | undefined, unit: string): string {
  if (max === undefined) return ''
  return min ? `${min} to ${max} ${unit}` : `at most ${max} ${unit}`
}
