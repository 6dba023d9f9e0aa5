import { z } from 'zod'
import { ConfigurationId, Text } from './ids.ts'

/** Every form of every value is searched for in all that a session stores, in the memory of one isolate. */
const maxSecretBytes = 8 * 1024
/** In one scope. With the limit on bytes it keeps what a sandbox is given small enough for one message. */
export const maxSecrets = 200
/** Of all values of one scope together, sealed: they are a third longer than the values. */
export const maxSealedBytes = 96 * 1024
/** Of all that one session knows. */
export const maxSessionSealedBytes = 256 * 1024

/** As environment variables are named everywhere. */
export const SecretName = z
  .string()
  .max(200)
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, {
    error: 'Letters, digits and "_", not starting with a digit',
  })
  // As a key of an object it would set the prototype instead of a field.
  .refine((name) => name !== '__proto__', { error: 'This name is not allowed' })
export type SecretName = z.infer<typeof SecretName>

export const SecretValue = Text(maxSecretBytes, 1).refine(
  (value) => utf8Length(value) <= maxSecretBytes,
  { error: `Must be at most ${maxSecretBytes} bytes as UTF-8` },
)
export type SecretValue = z.infer<typeof SecretValue>

/** Names a server that a secret is for: always by TLS, unless it is one of the deployment's private hosts. */
const UpstreamHost = z
  .string()
  .max(260)
  .regex(/^(http:\/\/)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?$/, {
    error: 'A host in small letters such as "api.example.com" or "npm.example.com:8443"',
  })

/** Those that belong to the connection or to the message cannot be set. */
const InjectedHeader = z
  .string()
  .max(100)
  .regex(/^[a-z][a-z0-9-]*$/, { error: 'Small letters, digits and "-"' })
  .refine((name) => name === 'authorization' || !reservedHeader.test(name), {
    error: 'This header is not for credentials',
  })
const reservedHeader =
  /^(host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|keep-alive|proxy-.*|cookie|accept.*|range|if-.*|cf-.*|x-forwarded-.*|x-gantry-.*|forwarded|via|user-agent|git-protocol)$/

/** How many servers one session may reach this way: each has a port inside. */
export const maxUpstreams = 16

/** A secret that the agent can use and not read: the control plane adds it to requests to these hosts. */
export const Injection = z.strictObject({
  hosts: z.array(UpstreamHost).min(1).max(maxUpstreams),
  header: InjectedHeader.default('authorization'),
  scheme: z
    .enum(['bearer', 'basic', 'plain'])
    .optional()
    .describe('How the value is put into the header. Absent: bearer for authorization, else plain'),
  user: z
    .string()
    .max(200)
    .regex(/^[!-9;-~]+$/, { error: 'Printable ASCII without ":"' })
    .optional()
    .describe('For basic. Absent: x-access-token'),
  npm: z
    .string()
    .max(200)
    .regex(/^(\*|@[a-z0-9~-][a-z0-9._~-]*)$/, { error: 'A scope such as "@team", or "*"' })
    .optional()
    .describe('Packages of this scope, or all, come from the first of the hosts'),
})
export type Injection = z.infer<typeof Injection>

/** What can be known of a secret once it is set: its value is returned nowhere. */
export const Secret = z.object({
  name: SecretName,
  configurationId: ConfigurationId.nullable().describe('null: for the whole organisation'),
  inject: Injection.nullable().describe('null: sandboxes are given its value'),
  createdAt: z.number(),
  updatedAt: z.number(),
})
export type Secret = z.infer<typeof Secret>

export const SecretSet = z
  .strictObject({
    value: SecretValue,
    configurationId: ConfigurationId.optional().describe('Absent: for the whole organisation'),
    inject: Injection.nullable()
      .optional()
      .describe('Absent: as it was, or null. null: sandboxes are given its value'),
  })
  .refine(({ value, inject }) => !inject || injectable.test(value), {
    path: ['value'],
    error: 'A value that is injected has at least 8 printable ASCII characters and nothing else',
  })
export type SecretSet = z.infer<typeof SecretSet>

export const SecretScope = z.strictObject({
  configurationId: ConfigurationId.optional().describe('Absent: those of the whole organisation'),
})
export type SecretScope = z.infer<typeof SecretScope>

export const SecretList = z.object({ items: z.array(Secret) })
export type SecretList = z.infer<typeof SecretList>

export const ResealResult = z.object({
  resealed: z.number().int().describe('Were under an older key, are now under the first'),
  current: z.number().int().describe('Were under the first key already'),
  unreadable: z.number().int().describe('Are under a key that this deployment does not have'),
})
export type ResealResult = z.infer<typeof ResealResult>

/** It goes into a header, and it must be long enough to be found in what a server answers. */
export const injectable = /^[!-~]([ -~]{6,})[!-~]$/

function utf8Length(text: string): number {
  let bytes = 0
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
  }
  return bytes
}
