// OpenCode's patch format, read as OpenCode 1.18 reads it and stricter: what it would skip or match by likeness is not
// understood here. A hunk counts only if its lines are in the text exactly once, so it has one place.

export type PatchAct =
  | { type: 'add'; path: string; content: string }
  | { type: 'delete'; path: string }
  | { type: 'update'; path: string; hunks: Hunk[] }
  | { type: 'move'; path: string; to: string }

export interface Hunk {
  before: string[]
  after: string[]
  atEnd: boolean
}

const begin = '*** Begin Patch'
const end = '*** End Patch'
const endOfFile = '*** End of File'
const headings = { add: '*** Add File:', delete: '*** Delete File:', update: '*** Update File:' }
const moveTo = '*** Move to:'

/** Null: not understood wholly, so nothing of it is. */
export function parsePatch(text: string): PatchAct[] | null {
  const lines = text.trim().split('\n')
  if (lines[0]?.trim() !== begin || lines.at(-1)?.trim() !== end) return null
  const acts: PatchAct[] = []
  for (const section of sectionsOf(lines.slice(1, -1)) ?? []) {
    const act = actOf(section)
    if (!act) return null
    acts.push(act)
  }
  return acts.length === 0 ? null : acts
}

type Section = [heading: string, ...body: string[]]

function sectionsOf(lines: string[]): Section[] | null {
  const sections: Section[] = []
  for (const line of lines) {
    const last = sections.at(-1)
    if (Object.values(headings).some((heading) => line.startsWith(heading))) sections.push([line])
    else if (last) last.push(line)
    else return null
  }
  return sections
}

function actOf([heading, ...body]: Section): PatchAct | null {
  const named = (of: string) => heading.slice(of.length).trim()
  if (heading.startsWith(headings.delete))
    return body.length === 0 ? { type: 'delete', path: named(headings.delete) } : null
  if (heading.startsWith(headings.add)) return addOf(named(headings.add), body)
  const path = named(headings.update)
  const to = body[0]?.startsWith(moveTo) ? body[0].slice(moveTo.length).trim() : null
  if (to !== null) return { type: 'move', path, to }
  const hunks = hunksOf(body)
  return hunks ? { type: 'update', path, hunks } : null
}

/** The last line gets its line feed, if the text has not ended with an empty one. */
function addOf(path: string, body: string[]): PatchAct | null {
  if (!body.every((line) => line.startsWith('+'))) return null
  const content = body.map((line) => line.slice(1)).join('\n')
  const isEnded = content === '' || content.endsWith('\n')
  return { type: 'add', path, content: isEnded ? content : `${content}\n` }
}

function hunksOf(body: string[]): Hunk[] | null {
  const hunks: Hunk[] = []
  for (const line of body) {
    const last = hunks.at(-1)
    if (last?.atEnd) return null
    if (line.startsWith('@@')) hunks.push({ before: [], after: [], atEnd: false })
    else if (!last) return null
    else if (line === endOfFile) last.atEnd = true
    else if (!addLine(last, line)) return null
  }
  return hunks.length > 0 && hunks.every(changes) ? hunks : null
}

function addLine({ before, after }: Hunk, line: string): boolean {
  const text = line.slice(1)
  if (line.startsWith('-')) before.push(text)
  else if (line.startsWith('+')) after.push(text)
  else if (line.startsWith(' ')) {
    before.push(text)
    after.push(text)
  } else return false
  return true
}

/** Context alone is no change. */
const changes = ({ before, after }: Hunk) => before.join('\n') !== after.join('\n')

/** Whether so many lines may be looked at. What is more is not looked at: the texts and the patch are the sandbox's. */
export type MayCompare = (lines: number) => boolean

/** The text afterwards, or null if one of the hunks has not exactly one place, or they are out of order. */
export function applyPatchHunks(
  text: string,
  hunks: Hunk[],
  mayCompare: MayCompare,
): string | null {
  const changed = replaceLines(fileLines(text), hunks, mayCompare)
  // OpenCode ends every file that it patches with a line feed.
  return changed === null ? null : textOf(changed)
}

/** The text before, or null if it cannot be told for sure: forwards again it must lead back here. */
export function reversePatchHunks(
  text: string,
  hunks: Hunk[],
  mayCompare: MayCompare,
): string | null {
  const back = hunks.map(({ before, after, atEnd }) => ({ before: after, after: before, atEnd }))
  const lines = replaceLines(fileLines(text), back, mayCompare)
  const earlier = lines === null ? null : textOf(lines)
  return earlier !== null && applyPatchHunks(earlier, hunks, mayCompare) === text ? earlier : null
}

function fileLines(text: string): string[] {
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}

const textOf = (lines: string[]) =>
  lines.length === 0 || lines.at(-1) !== '' ? [...lines, ''].join('\n') : lines.join('\n')

function replaceLines(lines: string[], hunks: Hunk[], mayCompare: MayCompare): string[] | null {
  if (!mayCompare(lines.length * hunks.length)) return null
  const pieces: string[][] = []
  let done = 0
  for (const hunk of hunks) {
    const at = onlyPlace(lines, hunk)
    if (at === null || at < done) return null
    pieces.push(lines.slice(done, at), hunk.after)
    done = at + hunk.before.length
  }
  return [...pieces, lines.slice(done)].flat()
}

/** Knuth, Morris and Pratt: of how many lines from the beginning the lines up to each are an end, too. */
function bordersOf(lines: readonly string[]): number[] {
  const borders: number[] = [0]
  for (const line of lines.slice(1)) borders.push(extend(lines, borders, borders.at(-1) ?? 0, line))
  return borders
}

function extend(
  lines: readonly string[],
  borders: readonly number[],
  matched: number,
  line: string,
): number {
  let length = matched
  while (length > 0 && lines[length] !== line) length = borders[length - 1] ?? 0
  return lines[length] === line ? length + 1 : 0
}

function onlyPlace(lines: string[], { before, atEnd }: Hunk): number | null {
  if (before.length === 0) return null
  const borders = bordersOf(before)
  let found: number | null = null
  let matched = 0
  for (const [at, line] of lines.entries()) {
    matched = extend(before, borders, matched, line)
    if (matched < before.length) continue
    if (found !== null) return null
    found = at + 1 - before.length
    matched = borders[matched - 1] ?? 0
  }
  return found !== null && atEnd && found + before.length !== lines.length ? null : found
}
