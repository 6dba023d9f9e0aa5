import type { Firewall } from '../../src/contract/limits.ts'
import { SessionCreate } from '../../src/contract/session.ts'
import type { CreateSession } from '../../src/core/session/record/record.ts'
import { orgId, TestDeployment } from './organisation.ts'
import { TestSession } from './session.ts'

/** Real sessions and their real organisation over one provider and one clock. */
export class Fleet {
  readonly world: TestDeployment
  readonly sessions = new Map<string, TestSession>()
  readonly caller = { organisationId: orgId, keyId: 'key', memberId: 'mbr_tester', owner: 'tester' }

  constructor(firewall: Partial<Firewall> = {}) {
    this.world = new TestDeployment(firewall)
    this.world.halt = async (sessionId, generation, order) => {
      const session = this.sessions.get(sessionId)
      await session?.actor.api.sandbox.halt({ organisationId: orgId, generation }, order)
    }
    this.world.check = async (sessionId, generation) =>
      this.sessions.get(sessionId)?.actor.api.sandbox.check({ organisationId: orgId, generation })
  }

  get now(): number {
    return this.world.now
  }

  async create(
    id: string,
    input: Record<string, unknown> = {},
    more: Partial<CreateSession> = {},
  ): Promise<TestSession> {
    const session = this.sessions.get(id) ?? new TestSession()
    const { world } = this
    const setNow = (at: number): void => {
      world.now = at
    }
    Object.defineProperties(session, {
      now: { get: () => world.now, set: setNow },
      organisation: { get: () => world.org },
    })
    session.provider = world.sandboxes
    this.sessions.set(id, session)
    await session.actor.api.self.create({
      ...this.caller,
      sessionId: id,
      input: SessionCreate.parse({ sandbox: 'local', ...input }),
      ...more,
    })
    return session
  }

  async state(id: string) {
    const session = this.sessions.get(id)
    if (!session) throw new Error(`No session ${id}`)
    return (await session.actor.api.self.view(this.caller)).sandbox
  }

  /** Moves the one clock, and runs every alarm that is due on the way, in order. */
  async pass(ms: number): Promise<void> {
    const until = this.now + ms
    for (;;) {
      const session = this.#next(until)
      const at = Math.min(session?.armedAt ?? Infinity, this.world.nextAt() ?? Infinity)
      if (at > until) break
      if (session?.armedAt === at) await this.#run(session)
      else await this.world.pass(Math.max(0, at - this.now))
    }
    await this.world.pass(until - this.now)
  }

  #next(until: number): TestSession | undefined {
    return [...this.sessions.values()]
      .filter(({ armedAt }) => armedAt !== null && armedAt <= until)
      .toSorted((a, b) => (a.armedAt ?? 0) - (b.armedAt ?? 0))[0]
  }

  async #run(session: TestSession): Promise<void> {
    this.world.now = Math.max(this.now, session.armedAt ?? 0)
    session.armedAt = null
    void session.actor.runDue()
    await session.settle()
    await this.world.settle()
  }
}
