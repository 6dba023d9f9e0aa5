/** Carries a call to an actor that lives elsewhere: its room, the method, and the arguments. */
export type Carry = (room: string, method: string, args: unknown[]) => Promise<unknown>

/**
 * An actor's Api for whoever is not in its process: `session(id).turns.prompt(…)` becomes one call by `carry`, and
 * `answerRemote` at the other end answers it. Whoever makes one says which Api it is, so there is no list of names to keep.
 */
export function remoteApi(carry: Carry): object {
  return new Proxy(
    {},
    {
      get: (_, room) => (isName(room) ? remoteRoom(room, carry) : undefined),
    },
  )
}

function remoteRoom(room: string, carry: Carry): object {
  return new Proxy(
    {},
    {
      get: (_, method) =>
        isName(method) ? (...args: unknown[]) => carry(room, method, args) : undefined,
    },
  )
}

/** A promise that is resolved with one of these must not take it for another promise. */
const isName = (name: string | symbol): name is string =>
  typeof name === 'string' && name !== 'then'

/**
 * Answers a call that was carried here. Of a room that is a class only its methods can be asked for, not what it keeps; of
 * one that is a plain object all that is in it.
 */
export function answerRemote(api: object, room: string, method: string, args: unknown[]): unknown {
  const found = Object.hasOwn(api, room) ? (api as Record<string, object>)[room] : undefined
  const member = found && membersOf(found).get(method)
  if (!member) throw new Error(`Nobody answers "${room}.${method}"`)
  return member.apply(found, args)
}

type Member = (...args: unknown[]) => unknown

const known = new WeakMap<object, ReadonlyMap<string, Member>>()

function membersOf(room: object): ReadonlyMap<string, Member> {
  const prototype = Object.getPrototypeOf(room) as object
  const holder = prototype === Object.prototype ? room : prototype
  const members = known.get(holder) ?? readMembers(holder)
  known.set(holder, members)
  return members
}

function readMembers(holder: object): ReadonlyMap<string, Member> {
  const isMember = (entry: [string, unknown]): entry is [string, Member] =>
    typeof entry[1] === 'function' && entry[0] !== 'constructor'
  return new Map(
    Object.entries(Object.getOwnPropertyDescriptors(holder))
      .map(([name, { value }]): [string, unknown] => [name, value])
      .filter(isMember),
  )
}
