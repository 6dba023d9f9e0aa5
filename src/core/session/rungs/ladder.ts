import { ladderOf } from '../../actor/ladder.ts'
import * as rungs from './all.ts'

/**
 * The session's own database, as the list of its rungs. Each numbered file beside this one is one rung: its texts are
 * applied once, in order, and are never edited after they have landed, because databases that nobody can reach have
 * them. A change to a table is a new file, and its line in all.ts.
 */
export const sessionLadder = ladderOf(rungs)
