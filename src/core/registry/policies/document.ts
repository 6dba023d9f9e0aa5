import { AppError, type ErrorDetail } from '../../../contract/error.ts'
import type { PolicyDocument } from '../../../contract/policy.ts'
import type { PolicyFormat } from '../../../contract/stored-policy.ts'
import type { DocumentError } from '../../documents.ts'
import { type ParsedPolicy, parsePolicy } from '../../policy/document.ts'

/** Each is tried on every path, host and command: a question must not hold up others for long. */
const maxPatterns = 1000

/** Or refuses, with the place of every mistake. */
export function mustParsePolicy(source: string, format: PolicyFormat): PolicyDocument {
  const document = documentOf(parsePolicy(source, format))
  const patterns = countPatterns(document)
  if (patterns <= maxPatterns) return document
  const message = `Must have at most ${maxPatterns} patterns in all its rules, and has ${patterns}`
  throw new AppError('unprocessable', `Invalid policy: ${message}`, [{ path: 'rules', message }])
}

/** What its rules match by, all together. */
export const countPatterns = ({ rules }: PolicyDocument): number =>
  rules.reduce((sum, { match }) => sum + Object.values(match).flat().length, 0)

/** What is stored may have a name that has been taken since, and more patterns than are taken now. */
export const mustParseStored = (source: string, format: PolicyFormat): PolicyDocument =>
  documentOf(parsePolicy(source, format, []))

function documentOf(parsed: ParsedPolicy): PolicyDocument {
  if ('policy' in parsed) return parsed.policy
  const details = parsed.errors.map(detailOf)
  throw new AppError('unprocessable', summary(details), details)
}

function detailOf({ line, column, path, message }: DocumentError): ErrorDetail {
  const field = path.replaceAll(/\.(\d+)(?=\.|$)/g, '[$1]')
  return { path: `line ${line}, column ${column} ${field}`.trimEnd().slice(0, 200), message }
}

function summary([first, ...rest]: ErrorDetail[]): string {
  if (!first) return 'The policy is not valid'
  const more = rest.length > 0 ? ` (and ${rest.length} more)` : ''
  return `Invalid policy at ${first.path}: ${first.message}${more}`
}
