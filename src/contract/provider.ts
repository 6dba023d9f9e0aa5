import { z } from 'zod'
import { Text } from './ids.ts'
import { ProviderName } from './sandbox.ts'

/** Those that have sandboxes. */
export const OfferedProvider = ProviderName.exclude(['none'])
export type OfferedProvider = z.infer<typeof OfferedProvider>

/** Those in somebody else's house, each with an account that may be the deployment's or an organisation's own. */
export const RemoteProvider = z.enum(['e2b', 'modal'])
export type RemoteProvider = z.infer<typeof RemoteProvider>

const url = z.url({ protocol: /^https?$/, error: 'Must be a URL' }).max(500)
/** Shorter ones could not be kept out of messages. */
const secret = Text(500, 8).describe('Stored sealed; never returned')

export const E2bCredentials = z.strictObject({
  apiKey: secret,
  template: Text(200, 1).default('gantry').describe('Name or id: see sandbox-agent/e2b'),
  apiUrl: url.optional().describe('Default: https://api.e2b.app'),
  sandboxUrl: url.optional().describe('One address for the daemons of all sandboxes'),
})
export type E2bCredentials = z.infer<typeof E2bCredentials>

export const ModalCredentials = z.strictObject({
  url: url.describe('Of the deployed app, such as https://acme--gantry-web.modal.run'),
  secret: secret.describe("The same as in the app's secret; stored sealed, never returned"),
  image: Text(200, 1).optional().describe("The name of a published image; default: the app's own"),
})
export type ModalCredentials = z.infer<typeof ModalCredentials>

export interface CredentialsOf {
  e2b: E2bCredentials
  modal: ModalCredentials
}

/** An organisation's own win over the deployment's. */
export const CredentialsSource = z.enum(['organisation', 'deployment'])
export type CredentialsSource = z.infer<typeof CredentialsSource>

export const Provider = z.object({
  name: OfferedProvider,
  source: CredentialsSource.nullable().describe('Whose credentials are used. null: there are none'),
  isDefault: z.boolean().describe('Whether sessions that name none get this one'),
  updatedAt: z.number().nullable().describe("When the organisation's own were set"),
  updatedBy: z.string().nullable().describe('The key that set them'),
})
export type Provider = z.infer<typeof Provider>

export const ProviderList = z.object({ items: z.array(Provider) })

export const CheckResult = z.object({
  name: z.string(),
  ok: z.boolean(),
  message: z.string(),
  hint: z.string().nullable().describe('What to do; null if there is nothing to do'),
})
export type CheckResult = z.infer<typeof CheckResult>

export const ProviderReport = z.object({
  provider: OfferedProvider,
  ok: z.boolean().describe('Whether every check is'),
  source: CredentialsSource.nullable(),
  checks: z.array(CheckResult),
})
export type ProviderReport = z.infer<typeof ProviderReport>
