import type { CrashPointName } from './crash-points.ts'
import { type Deadline, putAsideDeadline, takeDueDeadlines } from './deadlines.ts'
import type { Clock, Log, Sql } from '../ports.ts'
import { type ApiOf, type Meeting, type Room, roomMeetings, roomsApi } from './room.ts'

/** If this instance dies over the work of a deadline, and nobody comes by earlier, it comes back after this time. */
const leaseMs = 10_000
/** What this release has no work for belongs to a newer one, which may be back soon. */
const asideMs = 10 * 60_000

/** Whose deadlines they are: a session, an organisation. */
export interface AlarmOwner {
  /** False: there is no database yet, so nothing can be due. */
  readonly created: boolean
  readonly instance: string
  readonly ports: { sql: Sql; now: Clock; log: Log }
  alarmFired(): void
  /** Arms the next alarm. */
  commit(work: (sql: Sql) => void): void
  /** Arms one without looking at the deadlines. */
  armAt(at: number): void
  crash?(name: CrashPointName): Promise<void> | undefined
}

/**
 * Puts the rooms of an actor to work: its kernel tells them of commits, and its alarm finds the work of their deadlines.
 * `named` has each room once, under the name by which callers ask it, in the order in which they hear of a commit.
 */
export function alarmOfRooms<Rooms extends Record<string, Room>>(
  kernel: AlarmOwner & { enter(rooms: readonly Room[], deadlines: ReadonlySet<string>): void },
  named: Rooms,
  isPutOff?: (deadline: Deadline) => boolean,
): { api: ApiOf<Rooms>; alarm: Alarm } {
  const rooms = Object.values<Room>(named)
  const meetings = roomMeetings(rooms)
  kernel.enter(rooms, new Set(meetings.keys()))
  return { api: roomsApi(named), alarm: new Alarm(kernel, meetings, isPutOff) }
}

/**
 * The one alarm of an actor, shared by all its deadlines. What is due is taken under a lease before any work begins, so
 * an instance that dies over it is followed by one that does it again; a slow piece of work holds up no other.
 */
export class Alarm {
  readonly #owner: AlarmOwner
  readonly #meetings: ReadonlyMap<string, Meeting>
  /** Whether it was put off instead: nobody could have met it in time. */
  readonly #isPutOff: (deadline: Deadline) => boolean
  /** Deadlines that this instance is at work on: they come back while it takes long, and are left to it. */
  readonly #atWork = new Set<string>()

  constructor(
    owner: AlarmOwner,
    meetings: ReadonlyMap<string, Meeting>,
    isPutOff: (deadline: Deadline) => boolean = () => false,
  ) {
    this.#owner = owner
    this.#meetings = meetings
    this.#isPutOff = isPutOff
  }

  /** Throws only if not even another alarm can be armed; the promise, which is for the work, never fails. */
  fired(): Promise<void> {
    if (!this.#owner.created) return Promise.resolve()
    this.#owner.alarmFired()
    return this.#runAll(this.#take())
  }

  /** Armed again before anything is done, also if the database cannot be written now: nobody else would come back. */
  #take(): Deadline[] {
    const { instance } = this.#owner
    const { sql, now } = this.#owner.ports
    try {
      const due = takeDueDeadlines(sql, now(), instance, leaseMs)
      this.#owner.commit(() => {})
      return due.filter(({ name, runner }) => !(runner === instance && this.#atWork.has(name)))
    } catch (error) {
      this.#warn('An alarm failed, will come again', { error: textOf(error) })
      this.#owner.armAt(now() + leaseMs)
      return []
    }
  }

  async #runAll(due: readonly Deadline[]): Promise<void> {
    await Promise.all(due.map((deadline) => this.#run(deadline)))
  }

  async #run(deadline: Deadline): Promise<void> {
    const { name, attempt } = deadline
    this.#atWork.add(name)
    try {
      await this.#owner.crash?.('deadline.taken')
      if (this.#isPutOff(deadline)) return
      const [kind = '', argument = ''] = name.split(':')
      const meet = this.#meetings.get(kind)
      if (meet) await meet(argument, attempt)
      else this.#putAside(name)
    } catch (error) {
      this.#warn('Deadline failed, will come again', { name, attempt, error: textOf(error) })
    } finally {
      this.#atWork.delete(name)
    }
  }

  #putAside(name: string): void {
    const until = this.#owner.ports.now() + asideMs
    this.#owner.commit((sql) => putAsideDeadline(sql, name, until))
    this.#warn('Nobody has work for this deadline: a newer release has set it', { name, until })
  }

  #warn(message: string, fields: Parameters<Log>[2]): void {
    this.#owner.ports.log('warn', message, fields)
  }
}

const textOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
