import type { Rung } from '../../actor/ladder.ts'
import { rung as rung0001 } from './0001.ts'
import { rung as rung0002 } from './0002.ts'

/**
 * The database of one ledger shard, as the list of its rungs. Each file beside this one is one rung: its texts are
 * applied once, in order, and are never edited after they have landed, because databases that nobody can reach have
 * them. A change to a table is a new file at the end.
 */
export const ledgerLadder: readonly Rung[] = [rung0001, rung0002]
