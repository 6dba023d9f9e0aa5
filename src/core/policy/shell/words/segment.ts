import type { Category } from '../../../../contract/permission.ts'
import type { Finding } from './finding.ts'

export interface SegmentPath {
  path: string
  /** Whether its content is taken: what is only written or named shows no secret. */
  read: boolean
  /** pattern: any file that fits may be meant. any: which file is meant is known only when it runs. Absent: this one. */
  kind?: 'pattern' | 'any'
}

/** One simple command of a script, judged by itself. */
export interface Segment {
  text: string
  category: Category
  findings: readonly Finding[]
  paths: readonly SegmentPath[]
  hosts: readonly string[]
  /** Why it shows a secret, whatever its paths are. */
  secret: string | null
}
