import type { Written } from './writes.ts'

/**
 * What meets a deadline. The argument is what stands after the colon in its name; attempts are counted from 0. The work
 * ends by clearing or setting its row in its own commit; a row that it leaves comes back. While the work waits for others,
 * the row may be set anew: `clearTaken` then leaves the new time alone, `clearDeadline` does not.
 */
export type Meeting = (argument: string, attempt: number) => void | Promise<void>

/**
 * Everything that an actor must know of one of its capabilities. An actor is a list of rooms: its kernel tells each room
 * which tables a commit has written, and its alarm finds the work of a deadline in the room that has it. What callers may
 * ask stands in the room's own `…Api` interface (`RoomOf`); its prototype has those methods, and everything else is
 * private or a property.
 */
export interface Room {
  /** What callers may ask, if anything. */
  readonly api?: object
  /** By the names without an argument. Each name belongs to one room of its actor. */
  readonly deadlines?: Record<string, Meeting>
  /** After a commit: wake those who wait, send what is to be sent, look again at what may have changed. */
  readonly written?: (tables: Written) => void
}

/** A room that callers may ask: a class says `readonly api: TurnsApi = this`, so that they see nothing else of it. */
export interface RoomOf<Api extends object> extends Room {
  readonly api: Api
}

/** What callers may ask of an actor that has these rooms, by their names. */
export type ApiOf<Rooms> = {
  [
    Name in keyof Rooms as Rooms[Name] extends RoomOf<object> ? Name : never
  ]: Rooms[Name] extends RoomOf<infer Api> ? Api : never
}

export function roomsApi<Rooms extends Record<string, Room>>(rooms: Rooms): ApiOf<Rooms> {
  const offered = Object.entries(rooms).filter(([, { api }]) => api !== undefined)
  return Object.fromEntries(offered.map(([name, { api }]) => [name, api])) as ApiOf<Rooms>
}

/** The work of every deadline of an actor. Throws if two rooms claim one name. */
export function roomMeetings(rooms: readonly Room[]): ReadonlyMap<string, Meeting> {
  const meetings = new Map<string, Meeting>()
  for (const [name, meeting] of rooms.flatMap(({ deadlines = {} }) => Object.entries(deadlines))) {
    if (meetings.has(name)) throw new Error(`Two rooms have work for the deadline "${name}"`)
    meetings.set(name, meeting)
  }
  return meetings
}
