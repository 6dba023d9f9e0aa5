import { AppError, type ErrorDetail } from '../../contract/error.ts'
import { hideSecretLike } from '../redaction/redaction.ts'

/** Refuses what looks like a key of a well-known kind: rows of registries are shown to models and to every reader. */
export function mustBeSecretFree(what: string, fields: Record<string, unknown>): void {
  const details: ErrorDetail[] = Object.entries(fields)
    .filter(([, value]) => hideSecretLike(value) !== value)
    .map(([path]) => ({
      path,
      message: 'Looks like a secret: name it instead, and store its value at /v1/secrets',
    }))
  if (details.length > 0)
    throw new AppError('unprocessable', `Cannot store ${what}: it holds a secret`, details)
}
