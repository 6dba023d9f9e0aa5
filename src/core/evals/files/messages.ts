import type { DocumentPath } from '../../documents.ts'
import type { Folder } from './folder.ts'
import { isRecord, type Reading } from './reading.ts'

/** Messages of a case: a text or an object alone is one message of the role that is usual there. */
export function readCaseMessages(
  reading: Reading,
  folder: Folder,
  given: unknown,
  path: DocumentPath,
  usual: 'user' | 'assistant',
): unknown {
  if (typeof given === 'string' || (isRecord(given) && given['role'] === undefined)) {
    warnOfMarkers(reading, given, path)
    return reading.from([reading.from({ role: usual, content: given }, path)], path)
  }
  const list = isRecord(given) ? [given] : given
  if (!Array.isArray(list)) return given
  return list.map((message: unknown, at) => messageOf(reading, folder, message, [...path, at]))
}

function messageOf(reading: Reading, folder: Folder, given: unknown, path: DocumentPath): unknown {
  if (!isRecord(given)) return given
  const { content } = given
  const here = [...path, 'content']
  warnOfMarkers(reading, content, here)
  if (!Array.isArray(content)) return given
  const blocks = content.map((block: unknown, at) => {
    if (isRecord(block)) warnOfMarkers(reading, block['value'], [...here, at, 'value'])
    return withText(reading, folder, block, [...here, at])
  })
  return reading.from({ ...given, content: blocks }, path)
}

function withText(reading: Reading, folder: Folder, block: unknown, path: DocumentPath): unknown {
  if (!isRecord(block) || block['type'] !== 'file' || typeof block['value'] !== 'string')
    return block
  const file = folder.find(reading.filePath, block['value'])
  if (file === null) {
    reading.tell('error', [...path, 'value'], `There is no file "${block['value']}"`)
    return reading.from({ ...block, text: '' }, path)
  }
  return reading.from({ ...block, text: file.text }, path)
}

/** Whoever writes a whole conversation into one text means messages. */
function warnOfMarkers(reading: Reading, content: unknown, path: DocumentPath): void {
  const marker =
    typeof content === 'string'
      ? /^\s*(@\[(?:system|user|assistant|tool)\]:)/im.exec(content)
      : null
  if (marker)
    reading.tell(
      'warning',
      path,
      `"${marker[1]}" looks like a role marker and stays text: write one message per role instead`,
    )
}
