import { z } from 'zod'
import { createBlobs } from '../../../src/adapters/blobs.ts'
import { type GatewayTool, gatewayTool } from '../../../src/core/session/calls/tools/tool.ts'
import { verify } from '../../../src/core/session/calls/tools/verify.ts'
import type { Blobs } from '../../../src/core/ports.ts'
import { random } from '../../support/random.ts'
import { LedgerHost, OrganisationHost, SessionHost } from './actors.ts'
import { Clock } from '../platform/clock.ts'
import { letters, seededCrypto } from '../platform/crypto.ts'
import { claimsOf } from './claims.ts'
import type { Outside } from './outside.ts'
import { createFetch } from './fetch.ts'
import { quiet } from '../platform/globals.ts'
import { Libsql } from '../platform/libsql.ts'
import { Network } from '../platform/network.ts'
import { Notes } from './notes.ts'
import { Process } from '../platform/process.ts'
import { SimulatedSandboxes } from './sandboxes.ts'
import { type LinkServer, type ServerEnd, SimulatedSocket } from '../platform/socket.ts'

/** Two organisations: what the one has, the other must never see. */
export const organisations = [`org_${'a'.repeat(20)}`, `org_${'b'.repeat(20)}`] as const

export interface Caller {
  organisationId: string
  keyId: string
  memberId: string
  owner: string
}

export const callerOf = (organisationId: string): Caller => ({
  organisationId,
  keyId: `key_${organisationId.slice(4)}`,
  memberId: `mbr_${organisationId.slice(4)}`,
  owner: organisationId,
})

/** More than any story needs: whatever comes later is a loop without an end. */
const maxEvents = 20_000

/**
 * The whole of Gantry in one process: real actors and real agents over one clock, one network, and disks that a schedule
 * controls. Nothing moves by itself. Two worlds of one seed that take the same steps are the same, to the byte.
 */
export class World {
  readonly clock = new Clock()
  readonly network = new Network()
  readonly notes = new Notes()
  readonly libsql = new Libsql(this.network)
  readonly random = random(1)
  readonly crypto = seededCrypto(this.random)
  readonly sandboxes: SimulatedSandboxes
  readonly ledger: LedgerHost
  readonly sessions = new Map<string, SessionHost>()
  readonly organisations = new Map<string, OrganisationHost>()
  readonly sockets: SimulatedSocket[] = []
  readonly logs: string[] = []
  /** Who asks for people and for the routes: it does not die. */
  readonly edge = new Process('edge')
  readonly outside: Outside
  readonly #blobs: Blobs
  events = 0

  constructor() {
    const { clock, network, crypto, libsql, notes } = this
    this.#blobs = createBlobs(libsql.db, () => clock.now)
    this.sandboxes = new SimulatedSandboxes({
      clock,
      network,
      notesOf: (spec) => notes.of(spec, () => letters(this.random, 20)),
    })
    this.outside = {
      clock,
      network,
      crypto,
      libsql,
      ledger: undefined as never,
      provider: this.sandboxes.provider,
      tools: [...this.#tools(), verify],
      blobs: () => this.#blobs,
      session: (id) => this.session(id).remote(),
      organisation: (id) => this.organisation(id).remote(),
      log: (level, message, fields) => {
        this.logs.push(`${level} ${message} ${JSON.stringify(fields)}`)
      },
    }
    this.fetch = createFetch(this.outside, this.edge)
    this.ledger = new LedgerHost(this.outside)
    this.outside.ledger = this.ledger.remote()
  }

  session(id: string): SessionHost {
    const found = this.sessions.get(id)
    if (!found) throw new Error(`No session "${id}"`)
    return found
  }

  addSession(id: string, organisationId: string): SessionHost {
    const session = new SessionHost(id, organisationId, this.outside)
    this.sessions.set(id, session)
    return session
  }

  organisation(id: string): OrganisationHost {
    const known = this.organisations.get(id) ?? new OrganisationHost(id, this.outside)
    this.organisations.set(id, known)
    return known
  }

  /** One that may run again, since its effect carries the operation's id, and one that must not. */
  #tools(): GatewayTool[] {
    const definition = {
      aliases: [],
      domain: 'gateway',
      args: z.strictObject({}),
      description: '',
      guidance: '',
      onConflict: 'refuse',
    } as const
    return (['once', 'again'] as const).map((name) =>
      gatewayTool({
        definition: { ...definition, name },
        repeatable: name === 'again',
        run: async (_, { operationId }) => {
          const { current } = Process
          await this.network.call(
            `effect of ${name}`,
            () => this.edge,
            () => this.notes.effect(name, operationId),
          )
          return { success: true, result: `${operationId} by ${current?.name}` }
        },
      }),
    )
  }

  readonly links: LinkServer = {
    now: () => this.clock.now,
    process: (token) => this.session(claimsOf(token).sessionId).enter(),
    open: (token, end) => {
      const { sessionId, ...sandbox } = claimsOf(token)
      return this.session(sessionId).openLink(sandbox, end)
    },
    received: (end, text) => this.#ownerOf(end)?.received(end, text),
    closed: (end) => this.#ownerOf(end)?.linkClosed(end),
  }

  #ownerOf(end: ServerEnd): SessionHost | undefined {
    const id = this.#ends.get(end)
    const owner = id === undefined ? undefined : this.sessions.get(id)
    return owner?.erased ? undefined : owner
  }
  readonly #ends = new Map<ServerEnd, string>()

  /** For the agent's link. */
  get webSocket(): unknown {
    const connect = (init: { headers: { authorization: string } }) => {
      const token = init.headers.authorization.slice('Bearer '.length)
      const socket = new SimulatedSocket(this.network, this.links, token)
      this.#ends.set(socket.end, claimsOf(token).sessionId)
      this.sockets.push(socket)
      return socket
    }
    function WebSocket(_: string, init: { headers: { authorization: string } }) {
      return connect(init)
    }
    return Object.assign(WebSocket, { OPEN: SimulatedSocket.OPEN })
  }

  readonly fetch: ReturnType<typeof createFetch>

  /** Something happens, and everything that follows from it by itself. */
  async happen(work: () => void): Promise<void> {
    this.events += 1
    if (this.events > maxEvents) throw new Error('The story does not come to an end')
    work()
    await quiet()
  }

  /** Nothing is to be asked of it any more. */
  end(): void {
    for (const host of [this.ledger, ...this.sessions.values(), ...this.organisations.values()])
      host.database.giveBack()
  }

  /** What people ask goes by the network like everything else; a refusal is an answer. */
  ask(work: () => Promise<unknown>): void {
    void this.edge.run(async () => {
      try {
        await work()
      } catch (error) {
        this.notes.refusals.push((error as Error).message)
      }
    })
  }
}
