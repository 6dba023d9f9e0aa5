type Log = (message: string, fields?: Record<string, unknown>) => void

const secrets = new Set<string>()
let write = (line: string): void => void process.stderr.write(line)

/** Elsewhere than to standard error: many agents in one process would drown it. */
export function writeLogsTo(other: (line: string) => void): void {
  write = other
}

/** From now on the value is never written to a log, wherever it turns up. */
export function hideFromLogs(secret: string): void {
  if (secret.length >= 8) secrets.add(secret)
}

/** One line of JSON on standard error, which the host keeps. */
export const log: Log = (message, fields = {}) => {
  let line = JSON.stringify({ at: new Date().toISOString(), msg: message, ...fields })
  for (const secret of secrets) line = line.replaceAll(secret, '[hidden]')
  write(`${line}\n`)
}

export const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : ''
  return `${error.message}${cause}`
}

export const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms))
