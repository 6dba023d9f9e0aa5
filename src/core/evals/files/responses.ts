import type { DocumentPath } from '../../documents.ts'
import type { Folder } from './folder.ts'
import { isRecord, openLineReadings, type Reading, type Settings } from './reading.ts'

/**
 * The recorded answers of a replay target: in the file itself (`responses`, by case), or in a JSONL file (`trace`) whose
 * lines have an `eval_id`. A line may be a provider response or a result row of an earlier run.
 */
export function readResponsesFile(reading: Reading, folder: Folder, settings: Settings): void {
  const { trace } = settings
  if (typeof trace === 'string' && settings['responses'] === undefined) {
    const path = reading.pathOf(settings, 'trace')
    const file = folder.find(reading.filePath, trace)
    if (file === null) return reading.tell('error', path, `There is no file "${trace}"`)
    const { readings, problems } = openLineReadings(file.path, file.text)
    delete settings['trace']
    settings['responses'] = responsesOfLines(readings)
    for (const problem of [...problems, ...readings.flatMap((line) => line.problems)])
      reading.tell('error', path, `${trace}, line ${problem.line}: ${problem.message}`)
    return
  }
  if (!isRecord(settings['responses'])) return
  const at = reading.pathOf(settings, 'responses')
  settings['responses'] = reading.from(
    Object.fromEntries(
      Object.entries(settings['responses']).map(([id, given]) => [
        id,
        (Array.isArray(given) ? given : [given]).map((each: unknown) =>
          responseOf(reading, each, [...at, id]),
        ),
      ]),
    ),
    at,
  )
}

/** In the order of their attempts; without one in the order of the lines. */
function responsesOfLines(readings: readonly Reading[]): Settings {
  const byCase = new Map<string, { attempt: number; response: unknown }[]>()
  for (const line of readings) {
    const value = isRecord(line.value) ? line.value : {}
    const id = value['eval_id'] ?? value['evalId']
    if (typeof id !== 'string') {
      line.tell('error', ['eval_id'], 'Needs the id of a case')
      continue
    }
    const known = byCase.get(id) ?? []
    const { attempt } = value
    known.push({
      attempt: typeof attempt === 'number' ? attempt : known.length,
      response: responseOf(line, value, []),
    })
    byCase.set(id, known)
  }
  return Object.fromEntries(
    [...byCase].map(([id, known]) => [
      id,
      known.toSorted((a, b) => a.attempt - b.attempt).map(({ response }) => response),
    ]),
  )
}

/** A text alone is the answer. Names of our own may be spelled either way; whatever a tool got or gave is left alone. */
function responseOf(reading: Reading, given: unknown, path: DocumentPath): unknown {
  if (typeof given === 'string') return { outputMessages: [{ role: 'assistant', content: given }] }
  if (!isRecord(given)) return given
  const { candidateAnswer, toolCalls, traceSummary, ...rest } = reading.settings(given, path) ?? {}
  const trace = isRecord(traceSummary) ? (reading.settings(traceSummary, path) ?? {}) : {}
  const message = (each: unknown) => messageOf(reading, each, path)
  const calls = toolCalls === undefined ? {} : { toolCalls: callsOf(reading, toolCalls, path) }
  const outputMessages = Array.isArray(rest['outputMessages'])
    ? rest['outputMessages'].map(message)
    : [{ role: 'assistant', content: candidateAnswer ?? rest['content'] ?? '', ...calls }]
  return {
    outputMessages,
    ...pick('tokenUsage', rest['tokenUsage'] ?? trace['tokenUsage']),
    ...pick('costUsd', rest['costUsd'] ?? trace['costUsd']),
    ...pick('durationMs', rest['durationMs'] ?? trace['durationMs']),
  }
}

const pick = (key: string, value: unknown): Settings =>
  value === undefined ? {} : { [key]: value }

function messageOf(reading: Reading, given: unknown, path: DocumentPath): unknown {
  if (!isRecord(given)) return given
  const message = reading.settings(given, path) ?? {}
  return message['toolCalls'] === undefined
    ? message
    : { ...message, toolCalls: callsOf(reading, message['toolCalls'], path) }
}

const callsOf = (reading: Reading, given: unknown, path: DocumentPath): unknown =>
  Array.isArray(given)
    ? given.map((call: unknown) =>
        typeof call === 'string'
          ? { tool: call }
          : isRecord(call)
            ? reading.settings(call, path)
            : call,
      )
    : given
