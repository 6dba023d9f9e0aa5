import type { Enclosure } from '../../../contract/enclosure.ts'
import type { SessionRecord } from './record.ts'

/** How far the kernel holds the session's sandbox. What no sandbox has said is not claimed. */
export const enclosureOf = (_session: SessionRecord): Enclosure => 'none'
