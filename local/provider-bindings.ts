/** GANTRY_PUBLIC_URL is among them: a sandbox elsewhere reaches this machine only through something like a tunnel. */
const names = [
  'GANTRY_PUBLIC_URL',
  'GANTRY_E2B_API_KEY',
  'GANTRY_E2B_API_URL',
  'GANTRY_E2B_SANDBOX_URL',
  'GANTRY_E2B_TEMPLATE',
  'GANTRY_MODAL_URL',
  'GANTRY_MODAL_SECRET',
  'GANTRY_DEPLOYMENT_LABEL',
] as const

/** The variables that name accounts at sandbox providers, for the control plane alone. */
export function providerBindings(env: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = env[name] ?? ''
      return value === '' ? [] : [[name, value]]
    }),
  )
}
