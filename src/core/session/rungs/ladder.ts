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
import { rung as rung0010 } from './0010.ts'
import { rung as rung0011 } from './0011.ts'
import { rung as rung0012 } from './0012.ts'
import { rung as rung0013 } from './0013.ts'
import { rung as rung0014 } from './0014.ts'

/**
 * The session's own database, as the list of its rungs. Each file beside this one is one rung: its texts are applied
 * once, in order, and are never edited after they have landed, because databases that nobody can reach have them. A
 * change to a table is a new file at the end.
 */
export const sessionLadder: readonly Rung[] = [
  rung0001,
  rung0002,
  rung0003,
  rung0004,
  rung0005,
  rung0006,
  rung0007,
  rung0008,
  rung0009,
  rung0010,
  rung0011,
  rung0012,
  rung0013,
  rung0014,
]
