import { AppError, type ErrorDetail } from '../../contract/error.ts'
import type { PolicyDocument, PolicyError } from '../../contract/policy.ts'
import type { PolicyFormat } from '../../contract/stored-policy.ts'
import { parsePolicy } from '../permissions/document.ts'

/** Or refuses, with the place of every mistake. */
export function mustParse(source: string, format: PolicyFormat): PolicyDocument {
  const parsed = parsePolicy(source, format)
  if ('policy' in parsed) return parsed.policy
  const details = parsed.errors.map(detailOf)
  throw new AppError('unprocessable', summary(details), details)
}

function detailOf({ line, column, path, message }: PolicyError): ErrorDetail {
  const field = path.replaceAll(/\.(\d+)(?=\.|$)/g, '[$1]')
  return { path: `line ${line}, column ${column} ${field}`.trimEnd().slice(0, 200), message }
}

function summary([first, ...rest]: ErrorDetail[]): string {
  if (!first) return 'The policy is not valid'
  const more = rest.length > 0 ? ` (and ${rest.length} more)` : ''
  return `Invalid policy at ${first.path}: ${first.message}${more}`
}
