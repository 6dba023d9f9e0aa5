import { Folder } from '../workspace/folder.ts'

const maxLogBytes = 2 * 1024 * 1024
const warning = 'failed to add snapshot files'

/**
 * Whether OpenCode has said since this time that it could not take a snapshot. A folder with `git init` and without a
 * commit is enough for that: from then on all hashes stay as they were, and OpenCode only warns in its log.
 */
export function isFrozen(dataDir: string, since: number): boolean {
  const text = readLog(dataDir)
  return text
    .split('\n')
    .some((line) => line.includes(warning) && line.includes('level=WARN') && timeOf(line) >= since)
}

const timeOf = (line: string): number => Date.parse(/\btimestamp=(\S+)/.exec(line)?.[1] ?? '') || 0

function readLog(dataDir: string): string {
  try {
    const top = Folder.open(dataDir)
    const folder = top.descend(['log'])
    top.close()
    const tail = folder?.readSome('opencode.log', 'last', maxLogBytes)
    folder?.close()
    return tail?.toString('utf8') ?? ''
  } catch {
    return ''
  }
}
