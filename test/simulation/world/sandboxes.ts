import { AppError } from '../../../src/contract/error.ts'
import type { SandboxProvider, SandboxSpec } from '../../../src/core/ports.ts'
import { MemorySandboxes, nameOf } from '../../support/memory-sandboxes.ts'
import { type AgentNotes, type Machine, SimulatedAgent } from './agent.ts'
import type { Clock } from '../platform/clock.ts'
import { SimulatedDisk } from '../platform/disk.ts'
import type { Network } from '../platform/network.ts'
import { Process } from '../platform/process.ts'

interface Sandbox {
  machine: Machine
  agent: SimulatedAgent | null
}

interface Around {
  clock: Clock
  network: Network
  notesOf: (spec: SandboxSpec) => AgentNotes
}

const bootMs = 500
const restartMs = 2000

/** A provider with its machines: an order travels, and a sandbox that it has made runs an agent until it is stopped. */
export class SimulatedSandboxes {
  readonly books: MemorySandboxes
  readonly all = new Map<string, Sandbox>()
  /** Also those that are gone: none is made twice. */
  readonly #made = new Set<string>()
  /** Those whose stop came before their creation. */
  readonly late = new Set<string>()
  isAway = false
  readonly #around: Around
  readonly #process = new Process('provider')

  constructor(around: Around) {
    this.#around = around
    this.books = new MemorySandboxes(() => around.clock.now)
  }

  /** What actors are given: each order is a request of its own. */
  readonly provider = new Proxy({} as SandboxProvider, {
    get: (_, name) => {
      if (name === 'then') return undefined
      if (name === 'layout') return this.books.layout
      return (...args: unknown[]) => this.#order(String(name) as keyof MemorySandboxes, args)
    },
  })

  #order(name: keyof MemorySandboxes, args: unknown[]): Promise<unknown> {
    const unavailable = (what: string) => new AppError('sandbox_unavailable', `No answer: ${what}`)
    return this.#around.network.call(
      `provider.${name}`,
      () => this.#process,
      async () => {
        if (this.isAway) throw unavailable('the provider is away')
        const order = this.books[name] as (...args: unknown[]) => Promise<unknown>
        const answer = await order.apply(this.books, args)
        if (name === 'create') this.#boot(args[0] as SandboxSpec)
        if (name === 'stop') this.#stopped(nameOf(args[0] as string, args[1] as number))
        return answer
      },
      unavailable,
    )
  }

  #stopped(name: string): void {
    if (!this.#made.has(name)) this.late.add(name)
    this.#end(name)
  }

  #boot(spec: SandboxSpec): void {
    const name = nameOf(spec.sessionId, spec.generation)
    if (this.#made.has(name)) return
    this.#made.add(name)
    const stored = { hasSession: false, messages: [], parts: 0 }
    const machine: Machine = { spec, disk: new SimulatedDisk(), stored }
    this.all.set(name, { machine, agent: null })
    this.#startAgent(name, bootMs)
  }

  /** An agent that dies is started again on the same disk; one that ends by itself ends its sandbox. */
  #startAgent(name: string, afterMs: number): void {
    const { clock, network, notesOf } = this.#around
    clock.after(null, afterMs, () => {
      const sandbox = this.all.get(name)
      if (!sandbox) return
      const { machine } = sandbox
      const notes = notesOf(machine.spec)
      const agent = new SimulatedAgent({ clock, network, notes }, machine, () => this.lose(name))
      sandbox.agent = agent
      const mayRestart = () => this.all.get(name)?.agent === agent
      agent.process.onDeath(() => {
        clock.forget(agent.process)
        if (mayRestart()) this.#startAgent(name, restartMs)
      })
    })
  }

  /** It has ended by itself, and the provider knows. */
  lose(name: string): void {
    const booked = this.books.running.get(name)
    if (booked) booked.info = { ...booked.info, state: 'exited', reason: 'It has ended' }
    this.#end(name)
  }

  #end(name: string): void {
    const sandbox = this.all.get(name)
    this.all.delete(name)
    sandbox?.agent?.process.die()
  }

  agents(): SimulatedAgent[] {
    return [...this.all.values()].flatMap(({ agent }) => (agent?.process.isAlive ? [agent] : []))
  }
}
