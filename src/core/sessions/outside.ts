import { idAlphabet } from '../../contract/ids.ts'
import { backoffMs } from '../deadlines.ts'
import type { OrganisationApi } from '../organisations/api.ts'
import type { Crypto, SandboxProvider } from '../ports.ts'
import type { Kernel } from './kernel.ts'

/** The provider of this session's sandboxes. */
export async function providerOf(kernel: Kernel): Promise<SandboxProvider> {
  const { provider, organisationId } = kernel.session()
  const found = await kernel.ports.provider(provider, organisationId)
  if (!found) throw new Error(`No sandbox provider "${provider}" is configured`)
  return found
}

export function organisationOf(kernel: Kernel): OrganisationApi {
  return kernel.ports.organisation(kernel.session().organisationId)
}

/** 1 s, 2 s, 4 s … 30 s, and up to half as much again: those who failed together do not come back together. */
export function retryMs(attempt: number, crypto: Pick<Crypto, 'random'>): number {
  const ms = backoffMs(attempt)
  return ms + Math.floor((ms / 2) * fraction(crypto.random(2)))
}

/** At least 0, less than 1. */
function fraction(letters: string): number {
  const digit = (at: number) => idAlphabet.indexOf(letters.charAt(at))
  return (digit(0) * idAlphabet.length + digit(1)) / idAlphabet.length ** 2
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
