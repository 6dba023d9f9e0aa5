import { linkClose } from '../../contract/link.ts'
import type { Sql } from '../ports.ts'
import type { Answer } from './asks.ts'
import type { SandboxCaller } from './caller.ts'
import { callerSession } from './doors.ts'
import type { Kernel } from './kernel.ts'
import { giveUp, letGo, type Release } from './loss.ts'
import { changeSandbox, isOver } from './sandbox.ts'

/** A kill switch: the sandbox goes, whatever it is doing, and the session stays. Asked again it changes nothing. */
export async function haltSandbox(
  kernel: Kernel,
  sandbox: SandboxCaller,
  reason: string,
): Promise<void> {
  await kernel.openSecrets()
  const { generation, sandboxState } = callerSession(kernel, sandbox)
  // An older one is being stopped already, and this one too if it is over.
  if (generation !== sandbox.generation || isOver(sandboxState)) return
  const why = kernel.redact(reason)
  kernel.commit((sql, now) => kernel.answer(halt(sql, now, generation, why)))
  kernel.ports.host.closeAgent(linkClose.fenced, 'A kill switch is on')
}

function halt(sql: Sql, now: number, generation: number, reason: string): Answer[] {
  const why: Release = {
    end: { outcome: 'stopped', reason },
    denial: [reason, 'kill-switch'],
    words: reason,
  }
  // What works comes to rest; what has not begun to work has failed to.
  if (changeSandbox(sql, now, 'hibernate', reason)) return letGo(sql, now, generation, why)
  return giveUp(sql, now, reason, why)
}
