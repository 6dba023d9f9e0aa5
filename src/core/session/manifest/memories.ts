import type { Sql } from '../../ports.ts'
import { type Pin, pinsOf } from '../pins/pins.ts'

interface Given {
  scope: string
  type: string
  title: string
  content: string
}

/** What the session was given to remember, for its instructions; empty: nothing. */
export const memoriesText = (sql: Sql): string => textOfMemories(pinsOf(sql, 'memory'))

/** As the model is told it. */
export function textOfMemories(pins: readonly Pick<Pin, 'id' | 'content'>[]): string {
  if (pins.length === 0) return ''
  const sections = pins.map(({ id, content }) => {
    const { scope, type, title, content: text } = JSON.parse(content) as Given
    return `## ${title}\n\n(${id}, ${type}, ${scope})\n\n${text}`
  })
  const head = `# What is remembered

Saved in earlier work, so it may be out of date: look before you rely on it. memory_search finds more.`
  return [head, ...sections, ''].join('\n\n')
}
