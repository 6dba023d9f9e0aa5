import type { Rung } from '../../actor/ladder.ts'
import { rung as rung0001 } from './0001.ts'
import { rung as rung0002 } from './0002.ts'
import { rung as rung0003 } from './0003.ts'
import { rung as rung0004 } from './0004.ts'
import { rung as rung0005 } from './0005.ts'
import { rung as rung0006 } from './0006.ts'
import { rung as rung0007 } from './0007.ts'
import { rung as rung0008 } from './0008.ts'
import { rung as rung0009 } from './0009.ts'

/**
 * The organisation's own database, as the list of its rungs. Each file beside this one is one rung: its texts are
 * applied once, in order, and are never edited after they have landed, because databases that nobody can reach have
 * them. A change to a table is a new file at the end.
 */
export const organisationLadder: readonly Rung[] = [
  rung0001,
  rung0002,
  rung0003,
  rung0004,
  rung0005,
  rung0006,
  rung0007,
  rung0008,
  rung0009,
]
