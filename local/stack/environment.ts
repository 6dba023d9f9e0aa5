// What `npm start` takes from the shell for the control plane: the variables of a real model, and every other variable
// of docs/configuration.md that the stack does not make itself.

import { variableText, variableNames } from '../../src/variables.ts'

const litellm = ['GANTRY_MODEL_BASE_URL', 'GANTRY_MODEL_API_KEY', 'GANTRY_MODEL'] as const
const anthropic = ['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL'] as const

const modelVariables: readonly string[] = [...litellm, ...anthropic]

/** The variables that name a real model, for the control plane alone; null: there is none. */
export function modelEnvironment(
  env: Record<string, string | undefined>,
): Record<string, string> | null {
  const set = (names: readonly string[]) => names.filter((name) => (env[name] ?? '') !== '')
  const given = set(litellm)
  if (given.includes('GANTRY_MODEL_BASE_URL') || given.includes('GANTRY_MODEL_API_KEY')) {
    const missing = litellm.filter((name) => !given.includes(name))
    if (missing.length > 0)
      throw new Error(`Cannot use the model: set ${missing.join(' and ')}, too`)
  } else if (set(['ANTHROPIC_API_KEY']).length === 0) {
    return null
  }
  return Object.fromEntries([...given, ...set(anthropic)].map((name) => [name, env[name] ?? '']))
}

const names = variableNames.filter(
  (name) => !variableText(name).ownOfStack && !modelVariables.includes(name),
)

/**
 * What the shell says to the control plane, but for what the stack makes itself. GANTRY_PUBLIC_URL is among it: a sandbox
 * elsewhere reaches this machine only through something like a tunnel.
 */
export function passedEnvironment(env: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = env[name] ?? ''
      return value === '' ? [] : [[name, value]]
    }),
  )
}
