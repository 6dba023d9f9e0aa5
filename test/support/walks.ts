import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../local/binaries.ts'

const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')

/** The text of ARCHITECTURE.md below one heading of the second level. */
export const architectureSection = (heading: string): string =>
  page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? ''

export const ticked = (text: string): string[] =>
  [...text.matchAll(/`([^`]+)`/g)].map(([, inside = '']) => inside)

export interface Walk {
  title: string
  /** How many files it says that it passes, part by part. */
  counts: number[]
  steps: { names: string[]; files: string[] }[]
}

/** A file that is named without its folder is the one of that name that the walk has named before. */
function stepsOf(items: readonly string[]): Walk['steps'] {
  const files: string[] = []
  return items.map((item) => {
    const inside = ticked(item)
    for (const name of inside.filter((word) => word.endsWith('.ts')))
      files.push(
        name.includes('/') ? name : (files.find((one) => one.endsWith(`/${name}`)) ?? name),
      )
    const names = inside.filter((word) => !/\.ts$|\(/.test(word)).flatMap((word) => word.split('.'))
    return { names, files: [...new Set(files)] }
  })
}

/** What each step names, with all the files that the walk has named by then. */
export const walks: readonly Walk[] = architectureSection('Four walks')
  .split(/^(?=\*\*A)/m)
  .slice(1)
  .map((text) => {
    const [head = '', ...items] = text.split(/^(?=\d+\. )/m)
    return {
      title: /\*\*(.+?)\*\*/.exec(head)?.[1] ?? '',
      counts: [...head.matchAll(/(\d+) /g)].map(([, n]) => Number(n)),
      steps: stepsOf(items),
    }
  })
