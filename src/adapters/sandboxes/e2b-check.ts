import type { ProviderCheck } from '../../core/ports.ts'
import type { E2bApi } from './e2b-api.ts'

const usable = new Set(['ready', 'uploaded'])
const build = 'Build it as sandbox-agent/e2b/README.md says, then set its name'

/** Asks only: nothing is started. */
export async function checkE2b(api: E2bApi, template: string): Promise<ProviderCheck[]> {
  const key = await check(
    'api key',
    'Set a valid key: GANTRY_E2B_API_KEY, or PUT /v1/providers/e2b/credentials',
    async () => {
      await api.ping()
      return { ok: true, message: 'E2B accepts the API key', hint: null }
    },
  )
  if (!key.ok) return [key]
  return [key, await check('template', build, () => checkTemplate(api, template))]
}

async function checkTemplate(api: E2bApi, template: string): Promise<Omit<ProviderCheck, 'name'>> {
  const found = await api.template(template)
  if (found === null)
    return { ok: false, message: `There is no template "${template}" at E2B`, hint: build }
  if (found === 'hidden')
    return {
      ok: true,
      message: `Template "${template}" is another team's: its builds cannot be seen`,
      hint: null,
    }
  return found.some((status) => usable.has(status))
    ? { ok: true, message: `Template "${template}" is built`, hint: null }
    : { ok: false, message: `Template "${template}" has no finished build`, hint: build }
}

async function check(
  name: string,
  hint: string,
  look: () => Promise<Omit<ProviderCheck, 'name'>>,
): Promise<ProviderCheck> {
  try {
    return { name, ...(await look()) }
  } catch (error) {
    return { name, ok: false, message: (error as Error).message, hint }
  }
}
