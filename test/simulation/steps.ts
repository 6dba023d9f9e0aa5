import { Operation } from '../../src/contract/operation.ts'
import { RunCreate } from '../../src/contract/run.ts'
import { ExecutionCreate } from '../../src/contract/execution.ts'
import { parseAbilityDefinition } from '../../src/core/abilities/definition.ts'
import type { AbilityCopy } from '../../src/core/session/executions/rows.ts'
import { SessionCreate } from '../../src/contract/session.ts'
import { builtinPolicy } from '../../src/core/policy/builtin-policy.ts'
import { deleteSession } from '../../src/core/verbs/delete-session.ts'
import { random } from '../support/random.ts'
import { policyOf } from '../support/run-world.ts'
import { pass, runFor } from './flow.ts'
import type { SessionHost } from './world/actors.ts'
import { callerOf, organisations, type World } from './world/world.ts'

/** One line of a schedule. `n` decides everything that the step leaves open, so that other steps may be taken away. */
export interface Step {
  kind: StepKind
  n: number
}

type Pick = (below: number) => number
type Act = (world: World, pick: Pick) => void | Promise<void>

/** Three at most: two that share an organisation, and one of another. */
const slots = [
  { id: `ses_${'1'.repeat(30)}`, organisationId: organisations[0] },
  { id: `ses_${'2'.repeat(30)}`, organisationId: organisations[0] },
  { id: `ses_${'3'.repeat(30)}`, organisationId: organisations[1] },
] as const

/** Gateway tools of this world, which the built-in policy does not know. */
const document = policyOf({
  approvals: { timeoutSeconds: 60 },
  rules: [
    {
      id: 'simulated',
      match: { category: 'provider-tool', tool: ['once', 'again'] },
      decision: 'allow',
    },
  ],
})
const policy = { ...document, builtin: builtinPolicy() as string }

/** One that is only decided by the policy, and one that the built-in document allows. */
const work = [
  { category: 'shell', operation: 'run', command: 'npm test' },
  { category: 'read', operation: 'read-file', targetPath: 'a.txt' },
] as const

const abilityCopy = (letter: string, yaml: string): AbilityCopy => {
  const parsed = parseAbilityDefinition(yaml, null)
  if ('errors' in parsed) throw new Error(JSON.stringify(parsed.errors))
  const { name } = parsed.ability
  return { name, version: 1, hash: letter.repeat(64), definition: parsed.ability, files: [] }
}
const inner = abilityCopy(
  'b',
  '{ name: inner, description: d, steps: [{ id: x, run: echo inner }] }',
)
const ability = abilityCopy(
  'a',
  `
name: outer
description: d
steps:
  - { id: a, run: echo one }
  - { id: q, type: approval, prompt: 'Go on?' }
  - { id: w, workflow: inner }
  - { id: last, run: echo last }
`,
)

const words = ['say', 'bash', 'once', 'again', 'verify', 'verify', 'bash', 'nap']
const moments = [1000, 5000, 12_000, 31_000, 31_000, 65_000, 130_000, 700_000]

const of = <T>(items: readonly T[], pick: Pick): T | undefined => items[pick(items.length || 1)]
const sessionOf = (world: World, pick: Pick): SessionHost | undefined =>
  of([...world.sessions.values()], pick)

/** Asks something of one session as its owner. */
const ask =
  (work: (session: SessionHost, world: World, pick: Pick) => Promise<unknown>): Act =>
  (world, pick) => {
    const session = sessionOf(world, pick)
    if (session) world.ask(() => work(session, world, pick))
  }

const steps = {
  create: (world, pick) => {
    const slot = of(
      slots.filter(({ id }) => !world.sessions.has(id)),
      pick,
    )
    if (!slot) return
    const session = world.addSession(slot.id, slot.organisationId)
    const input = SessionCreate.parse({
      sandbox: 'local',
      gate: { ask: pick(3) === 0 ? ['bash'] : [], deny: [], askTimeoutSeconds: 60 },
      ...(pick(3) === 0 && { budget: { toolCalls: 1 + pick(4) } }),
    })
    const caller = callerOf(slot.organisationId)
    world.ask(() => session.remote().self.create({ sessionId: slot.id, ...caller, input, policy }))
  },
  prompt: ask(async (session, _, pick) => {
    const { turns } = session.remote()
    const caller = callerOf(session.organisationId)
    const text = Array.from({ length: 1 + pick(4) }, () => of(words, pick)).join(' ')
    const key = pick(2) === 0 ? `key ${pick(3)}` : null
    const input = { text, steer: pick(5) === 0 }
    await Promise.all([
      turns.prompt(caller, input, key),
      ...(pick(4) === 0 ? [turns.prompt(caller, { text: 'say', steer: false }, null)] : []),
    ])
  }),
  /** Evidence is collected and named. */
  show: ask((session) =>
    session
      .remote()
      .turns.prompt(callerOf(session.organisationId), { text: 'verify', steer: false }, null),
  ),
  /** A key that is used again is the same operation. */
  operate: ask(async (session, world, pick) => {
    const { runs, operations } = session.remote()
    const caller = callerOf(session.organisationId)
    const key = `operation ${pick(3)}`
    const run = await runs.create(caller, RunCreate.parse({ intent: key }), key)
    const operation = Operation.parse(of(work, pick))
    const options = { evaluateOnly: false, idempotencyKey: key }
    const sent = [operations.execute(caller, run.id, operation, options)]
    if (pick(3) === 0) sent.push(operations.execute(caller, run.id, operation, options))
    const record = (await Promise.allSettled(sent)).find(({ status }) => status === 'fulfilled')
    if (record?.status === 'fulfilled') world.notes.operations.push([session.id, record.value.id])
  }),
  /** An ability with scripts, an approval and another ability in it. */
  perform: ask(async (session, _, pick) => {
    const caller = callerOf(session.organisationId)
    const create = ExecutionCreate.parse({ ability: ability.name, inputs: {} })
    const key = `execution ${pick(3)}`
    await session.remote().abilities.execute(caller, { create, ability, nested: [inner] }, key)
  }),
  /** Somebody looks after an operation: goes on with what was approved, gives up what nobody can say, tries again. */
  mend: ask(async (session, world, pick) => {
    const { approvals, operations } = session.remote()
    const caller = callerOf(session.organisationId)
    const own = world.notes.operations.filter(([id]) => id === session.id)
    const [, operationId] = of(own, pick) ?? []
    if (operationId === undefined) return
    const { approvalId, attempts } = await operations.get(caller, operationId, 0)
    const last = attempts.at(-1)
    if (!last && approvalId !== null) {
      const { state } = await approvals.get(caller, approvalId)
      if (state === 'approved') await operations.resume(caller, approvalId)
    } else if (last?.status === 'reserved' && last.suspectSince !== null) {
      await operations.abandon(caller, last.id, 'Nobody knows')
    } else if (last) {
      const again = await operations.admitRetry(caller, operationId, 'after-failure-or-abandoned')
      await operations.executeAttempt(caller, again.id)
    }
  }),
  abort: ask((session) => session.remote().self.abort(callerOf(session.organisationId), '')),
  resolve: ask(async (session, _, pick) => {
    const caller = callerOf(session.organisationId)
    const list = await session.remote().approvals.list(caller, null)
    const open = list.filter(({ state }) => state === 'pending')
    const resolution = pick(3) === 0 ? 'rejected' : 'approved'
    const one = of(open, pick)
    if (one) await session.remote().approvals.resolve(caller, one.id, { resolution, reason: '' })
  }),
  replace: ask((session) =>
    session.remote().sandbox.replace(callerOf(session.organisationId), 'simulated'),
  ),
  close: ask((session) => session.remote().self.close(callerOf(session.organisationId), '')),
  erase: ask((session, world) =>
    deleteSession(world.outside, callerOf(session.organisationId), session.id),
  ),
  /** Set once there is nobody to spend it, and only raised from then on. */
  budget: (world, pick) => {
    const id = organisations[pick(2)] as string
    const isUsed = () => [...world.sessions.values()].some((one) => one.organisationId === id)
    const known = world.notes.budgets.get(id)
    if (isUsed() && known === undefined) return
    const toolCalls = (known ?? 0) + 1 + pick(8)
    if (known !== undefined) world.notes.budgets.set(id, toolCalls)
    world.ask(async () => {
      await world.organisation(id).remote().budgets.set(null, { toolCalls }, 'key')
      if (!isUsed()) world.notes.budgets.set(id, toolCalls)
    })
  },
  stranger: (world, pick) => {
    const session = sessionOf(world, pick)
    if (!session) return
    const caller = callerOf(organisations.find((id) => id !== session.organisationId) as string)
    world.ask(async () => {
      const api = session.remote()
      const given = await (pick(2) === 0 ? api.self.view(caller) : api.log.events(caller, 0, 10))
      world.notes.leaks.push(JSON.stringify(given))
    })
  },
  evidence: (world) => void (world.notes.evidence += 1),

  run: (world, pick) => runFor(world, pick, 5 + pick(35)),
  /** Long enough for a sandbox to boot, or for a turn to end. */
  settle: (world, pick) => runFor(world, pick, 250, 2000),
  deliver: (world, pick) => runFor(world, pick, 1),
  pass: (world, pick) => pass(world, of(moments, pick) as number),
  jump: (world, pick) => {
    world.clock.now += of(moments, pick) as number
    return pass(world, 0)
  },
  lose: (world, pick) => world.happen(() => world.network.take(pick(1000))?.lose()),
  /** Nothing arrives any more of what one process asks, or of one thing that it asks for. */
  slow: (world, pick) => {
    const { network } = world
    const kinds = pick(2) > 0 ? network.pending() : [...network.kinds]
    const who = of([...new Set(kinds.map((kind) => kind.split('>')[0] as string))], pick)
    const what = of(
      kinds.filter((kind) => who !== undefined && kind.startsWith(who)),
      pick,
    )
    if (who !== undefined && what !== undefined) network.slow.add(pick(2) > 0 ? who : what)
  },
  /** Organisations answer nobody who asks for a part of a shared budget. */
  holdSlices: (world) => {
    for (const kind of world.network.kinds)
      if (kind.endsWith('organisation.budgets.take')) world.network.slow.add(kind)
  },
  swift: (world) => world.network.slow.clear(),
  cut: (world, pick) => {
    const open = world.sockets.filter(({ readyState }) => readyState === 1)
    return world.happen(() => of(open, pick)?.cut(pick(2) === 0 ? 'told' : 'silent'))
  },

  crashSession: (world, pick) =>
    world.happen(() => {
      const session = sessionOf(world, pick)
      session?.crash()
      // Evicted, with its socket asleep; or broken, with its socket.
      if (pick(2) === 0) world.sockets.find(({ end }) => end === session?.link)?.cut('told')
    }),
  crashSoon: (world, pick) => {
    const hosts = [...world.sessions.values(), ...world.organisations.values()]
    const host = of(hosts, pick)
    if (host) host.database.crashIn = { commits: 1 + pick(6), after: pick(2) === 0 }
  },
  crashOrganisation: (world, pick) =>
    world.happen(() => of([...world.organisations.values()], pick)?.crash()),
  crashLedger: (world) => world.happen(() => world.ledger.crash()),
  crashAgent: (world, pick) =>
    world.happen(() => of(world.sandboxes.agents(), pick)?.process.die()),
  crashOpenCode: (world, pick) =>
    world.happen(() => of(world.sandboxes.agents(), pick)?.killOpenCode()),
  loseSandbox: (world, pick) =>
    world.happen(() => world.sandboxes.lose(of([...world.sandboxes.all.keys()], pick) ?? '')),
  powerFails: (world, pick) => {
    const sandbox = of([...world.sandboxes.all.values()], pick)
    if (sandbox) sandbox.machine.disk.failsIn = { writes: 1 + pick(5), share: pick(10) / 10 }
  },
  agentDisk: (world, pick) => {
    const disk = of([...world.sandboxes.all.values()], pick)?.machine.disk
    if (disk) disk.isFull = !disk.isFull
  },
  sessionDisk: (world, pick) => {
    const session = sessionOf(world, pick)
    if (session) session.database.isFull = !session.database.isFull
  },
  libsql: (world) => void (world.libsql.isAway = !world.libsql.isAway),
  provider: (world) => void (world.sandboxes.isAway = !world.sandboxes.isAway),
} satisfies Record<string, Act>

export type StepKind = keyof typeof steps

/** Whatever a step cannot do in the world as it is, it leaves alone. */
export async function take(world: World, { kind, n }: Step): Promise<void> {
  const next = random(n)
  const act: Act = steps[kind]
  await act(world, (below) => Math.floor(next() * below))
}

/** What makes a story go on comes more often than what breaks it. */
const weights: Record<StepKind, number> = {
  ...{ show: 2, operate: 5, mend: 4, perform: 4 },
  ...{ create: 2, prompt: 14, abort: 5, resolve: 3, replace: 1, close: 0.5, erase: 1.5, budget: 2 },
  ...{
    stranger: 0.5,
    evidence: 0.5,
    run: 16,
    settle: 4,
    deliver: 3,
    pass: 8,
    jump: 1,
    lose: 4,
    cut: 2,
    slow: 6,
    swift: 1,
    holdSlices: 1,
  },
  ...{ crashSession: 3, crashSoon: 3, crashOrganisation: 1, crashLedger: 1, crashAgent: 2 },
  ...{ crashOpenCode: 2, loseSandbox: 1, powerFails: 1, agentDisk: 1, sessionDisk: 1 },
  ...{ libsql: 3, provider: 1 },
}
const always: readonly StepKind[] = ['create', 'prompt', 'run', 'pass']

/** What often follows one after the other in real life. Half of the schedules have one of these among their steps. */
const motifs: readonly StepKind[][] = [
  // Somebody is tired of waiting, and asks again.
  ['slow', 'prompt', 'run', 'abort', 'run', 'pass', 'prompt', 'run', 'swift', 'settle'],
  ['prompt', 'run', 'slow', 'abort', 'run', 'prompt', 'pass', 'run', 'swift', 'settle'],
  // Two show the same, and one of them is deleted.
  [
    'create',
    'create',
    'settle',
    'show',
    'show',
    'show',
    'settle',
    'slow',
    'show',
    'erase',
    'settle',
  ],
  ['create', 'settle', 'show', 'settle', 'show', 'erase', 'run', 'show', 'run', 'settle', 'swift'],
  // The sandbox of a question that waits for a budget is replaced.
  ['settle', 'prompt', 'run', 'holdSlices', 'run', 'run', 'replace', 'run', 'swift', 'settle'],
]

const starts: readonly StepKind[][] = [
  ['create', 'settle'],
  ['create', 'create', 'settle', 'settle'],
  ['budget', 'run', 'create', 'settle'],
]

/**
 * The schedule of a seed. Each seed leaves some kinds of steps out and has more of others: what never happens together
 * under one mixture happens under another.
 */
export function scheduleOf(seed: number): Step[] {
  const next = random(seed)
  const kinds = (Object.keys(weights) as StepKind[]).map((kind) => {
    const factor = [0, 1, 1, 3][Math.floor(next() * 4)] as number
    return { kind, weight: weights[kind] * (always.includes(kind) ? 1 : factor) }
  })
  const total = kinds.reduce((sum, { weight }) => sum + weight, 0)
  const choose = (): StepKind => {
    let at = next() * total
    for (const { kind, weight } of kinds) if ((at -= weight) < 0) return kind
    return 'run'
  }
  const number = () => Math.floor(next() * 4_294_967_296)
  const length = 8 + Math.floor(next() * 32)
  const start = starts[Math.floor(next() * starts.length)] as StepKind[]
  const rest = Array.from({ length }, choose)
  const motif = next() < 0.5 ? (motifs[Math.floor(next() * motifs.length)] as StepKind[]) : []
  let at = 0
  for (const kind of motif) rest.splice((at += 1 + Math.floor(next() * 3)), 0, kind)
  return [...start, ...rest].map((kind) => ({ kind, n: number() }))
}
