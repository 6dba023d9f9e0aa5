import { ladderOf } from '../../actor/ladder.ts'
import * as rungs from './all.ts'

/** The database of one eval run, as the list of its rungs: what has landed is never edited. */
export const evalRunLadder = ladderOf(rungs)
