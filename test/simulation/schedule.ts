import { checkEnd, comeToRest } from './ending.ts'
import { check } from './invariants.ts'
import { withPlatform } from './platform/globals.ts'
import { type Step, take } from './steps.ts'
import { Violation } from './world/notes.ts'
import { World } from './world/world.ts'

/** What went wrong, and after how many steps. `rule` is the same for the same fault. */
export interface Failure {
  rule: string
  detail: string
  /** The step that showed it; as many as there are: the end. */
  at: number
}

/** Takes all steps in a new world, then lets it come to rest. Null: all invariants hold. */
export async function runSchedule(
  steps: readonly Step[],
  see?: (world: World) => void,
): Promise<Failure | null> {
  const world = new World()
  see?.(world)
  const { clock, random, webSocket, fetch } = world
  return withPlatform({ clock, random, WebSocket: webSocket, fetch }, async () => {
    let at = 0
    try {
      for (; at < steps.length; at += 1) {
        await take(world, steps[at] as Step)
        check(world)
      }
      await comeToRest(world)
      await checkEnd(world)
      return null
    } catch (error) {
      if (error instanceof Violation) return { rule: error.rule, detail: error.message, at }
      const { message, stack = '' } = error as Error
      return { rule: `Nothing is thrown: ${message}`, detail: stack, at }
    } finally {
      world.end()
    }
  })
}
