// A call to an object and its answer, as they cross: one text each. An object that crosses is taken apart and put together
// value by value, and of an answer the platform keeps both ends until it is collected, so that more could be asked of it.
// bindings.ts packs calls, the shells answer them.

import { answerRemote, type Carry } from '../src/core/actor/remote.ts'

/** What every object answers: the call as text, and its last argument by itself if that is bytes. */
export interface Asked {
  ask(call: string, bytes?: Uint8Array): Promise<string | undefined>
}

export const carryTo =
  (object: () => Asked): Carry =>
  async (room, method, args) => {
    const last = args.at(-1)
    const bytes = last instanceof Uint8Array ? last : undefined
    const call = JSON.stringify([room, method, bytes ? args.slice(0, -1) : withoutMissing(args)])
    const answer = await (bytes ? object().ask(call, bytes) : object().ask(call))
    return answer === undefined ? undefined : JSON.parse(answer)
  }

/** Undefined for a call that answers nothing. */
export async function answerCarried(
  api: object,
  call: string,
  bytes: Uint8Array | undefined,
): Promise<string | undefined> {
  const [room, method, args] = JSON.parse(call) as [string, string, unknown[]]
  const answer = await answerRemote(api, room, method, bytes ? [...args, bytes] : args)
  return JSON.stringify(answer)
}

/** JSON would make null of them, for which a parameter's default does not stand in. */
function withoutMissing(args: unknown[]): unknown[] {
  const given = args.findLastIndex((arg) => arg !== undefined) + 1
  return given === args.length ? args : args.slice(0, given)
}
