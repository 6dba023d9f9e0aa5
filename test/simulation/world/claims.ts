/** What a sandbox's token says here: whose it is, and nothing that must be verified. */
export function claimsOf(token: string): {
  sessionId: string
  organisationId: string
  generation: number
} {
  const [sessionId = '', organisationId = '', generation = ''] = token.split('.')
  return { sessionId, organisationId, generation: Number(generation) }
}
