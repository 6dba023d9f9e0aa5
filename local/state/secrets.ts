import { randomBytes, randomInt } from 'node:crypto'
import { join } from 'node:path'
import { keepPrivateJson } from './private-files.ts'

export const randomText = (length: number, alphabet: string): string =>
  Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('')

export const randomSecret = (): string => randomBytes(32).toString('base64')

export interface Secrets {
  /** base64 */
  idSecret: string
  /** `kid:base64[,kid:base64]` */
  tokenKeys: string
  sealKeys: string
  exportKeys: string
  hostSecret: string
  modelKey: string
}
export const loadSecrets = (stateDir: string): Secrets => ({
  ...keepPrivateJson(join(stateDir, 'secrets.json'), () => ({
    idSecret: randomSecret(),
    tokenKeys: `k1:${randomSecret()}`,
    sealKeys: `k1:${randomSecret()}`,
    hostSecret: randomBytes(32).toString('hex'),
    modelKey: `sk-local-${randomBytes(16).toString('hex')}`,
  })),
  // A file of its own: a stack that was made before there were exports has the other one already.
  ...keepPrivateJson(join(stateDir, 'export-keys.json'), () => ({
    exportKeys: `k1:${randomSecret()}`,
  })),
})
