import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { root } from '../../local/binaries.ts'

type Schema = Parameters<typeof z.fromJSONSchema>[0]
interface Shapes {
  version: number
  $defs: Record<string, Schema>
  calls: Record<string, { request: Schema; answer: Schema }>
}

export const modalFolder = join(root, 'sandbox-agent', 'modal')
const file = join(modalFolder, 'gantry_modal', 'shapes.json')
/** The app's own definitions. */
export const shapes = JSON.parse(readFileSync(file, 'utf8')) as Shapes

const schemas = new Map<string, z.ZodType>()

/** What of the value is not as the app defines it; null: nothing. */
export function shapeFault(
  call: string,
  part: 'request' | 'answer' | 'error',
  value: unknown,
): string | null {
  const definition = part === 'error' ? shapes.$defs['error'] : shapes.calls[call]?.[part]
  if (definition === undefined) return `There is no call "${call}"`
  const key = `${call} ${part}`
  const schema = schemas.get(key) ?? z.fromJSONSchema({ ...toObject(definition), ...defs })
  schemas.set(key, schema)
  const { error } = schema.safeParse(value)
  return error === undefined ? null : `${key}: ${z.prettifyError(error)}`
}

const defs = { $defs: shapes.$defs } as object
const toObject = (schema: Schema) => schema as object
