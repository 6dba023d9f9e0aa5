import { AppError } from '../../contract/error.ts'
import type { TokenCreate, TokenCreated } from '../../contract/token.ts'
import type { Tokens } from '../ports.ts'
import type { SessionApi } from '../session/session.ts'
import type { Caller } from '../session/record/caller.ts'

interface MintTokenPorts {
  session(id: string): { self: Pick<SessionApi['self'], 'view'> }
  tokens: {
    mint(
      claims: Parameters<Tokens['mint']>[0],
      options: { lifetimeSeconds: number; source: string },
    ): ReturnType<Tokens['mint']>
  }
}

/** For a program that stands in for the sandbox of a session that was created without one. */
export async function mintSandboxToken(
  ports: MintTokenPorts,
  caller: Caller,
  sessionId: string,
  { generation, lifetimeSeconds, source }: TokenCreate,
): Promise<TokenCreated> {
  const { organisationId, sandbox } = await ports.session(sessionId).self.view(caller)
  // A second holder of a real sandbox's token could act in its name.
  if (sandbox.provider !== 'none') {
    throw new AppError('wrong_state', 'Cannot make a token: the session has a sandbox')
  }
  return await ports.tokens.mint(
    { sessionId, organisationId, generation: generation ?? sandbox.generation },
    { lifetimeSeconds, source },
  )
}
