import type { Pin } from '../session/pins/pins.ts'
import { pinAbilities } from './pin-abilities.ts'
import { pinAgent } from './pin-agent.ts'
import { pinMemories } from './pin-memories.ts'
import { pinProfile } from './pin-profile.ts'
import { pinSkills } from './pin-skills.ts'
import type { PinContext, Pinner } from './pinner.ts'

/** In this order. */
const pinners: readonly Pinner[] = [pinAgent, pinProfile, pinSkills, pinMemories, pinAbilities]

export async function pinRegistries(context: PinContext): Promise<Pin[]> {
  let pins: Pin[] = []
  for (const pin of pinners) pins = [...pins, ...(await pin(context, pins))]
  return pins
}
