import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../local/binaries.ts'

/** Folders whose tests start no process. */
const quick = /^test\/(core|contract|http|through)\//

/** What a word selects: `core` a folder of tests, `calls` or `CALL` what is named so or cites rules of that area. */
export interface Room {
  files: string[]
  /** Cite the area too, but start servers. */
  others: string[]
}

export function findRoom(word: string): Room {
  const all = globSync('test/**/*.test.ts', { cwd: root }).toSorted()
  const folder = all.filter((file) => file.startsWith(`test/${word}/`))
  if (folder.length > 0) return { files: folder, others: [] }
  const area = areaOf(word)
  const found = all.filter(
    (file) => isNamed(file, word) || (area !== undefined && cites(file, area)),
  )
  return {
    files: found.filter((file) => quick.test(file)),
    others: found.filter((file) => !quick.test(file)),
  }
}

/** The area of SPEC.md that has the word as its name or in its title: `calls` is CALL, "gateway tool calls". */
function areaOf(word: string): string | undefined {
  const wanted = word.toLowerCase()
  return areas().find(
    ({ code, title }) => code.toLowerCase() === wanted || title.split(/\W+/).includes(wanted),
  )?.code
}

function areas(): { code: string; title: string }[] {
  const spec = readFileSync(join(root, 'SPEC.md'), 'utf8')
  return [...spec.matchAll(/^## ([A-Z0-9]+): (.*)$/gm)].map(([, code = '', title = '']) => ({
    code,
    title: title.toLowerCase(),
  }))
}

const isNamed = (file: string, word: string): boolean =>
  file
    .replace(/\.test\.ts$/, '')
    .split(/[/-]/)
    .includes(word.toLowerCase())

const cites = (file: string, area: string): boolean =>
  new RegExp(`\\[${area}\\d+\\]`).test(readFileSync(join(root, file), 'utf8'))

/** For whoever has asked for something else. */
export function knownWords(): string[] {
  const folders = globSync('test/*/*.test.ts', { cwd: root }).map(
    (file) => file.split('/')[1] ?? '',
  )
  return [...new Set(folders)].toSorted().concat(areas().map(({ code }) => code.toLowerCase()))
}
