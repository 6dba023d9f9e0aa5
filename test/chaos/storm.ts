import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { root } from '../../local/binaries.ts'
import { startStack } from '../../local/stack/stack.ts'
import { createLibsql } from '../../src/adapters/libsql.ts'
import { createTokens } from '../../src/adapters/tokens.ts'
import type { Session } from '../../src/contract/session.ts'
import { crashPoints } from '../../src/core/actor/crash-points.ts'
import { parseConfig } from '../../src/config.ts'
import { ChaosAgent } from './agent.ts'
import { Caller } from './calls.ts'
import { checkAll } from './check.ts'
import { Client } from './client.ts'
import { startCrashServer } from './crash-server.ts'
import { drained } from './drained.ts'
import { startEffectsServer } from './effects-server.ts'
import { Killer, nameOf } from './killer.ts'
import { live } from './lives.ts'
import { createOperators } from './operators.ts'
import { createPlan } from './plan.ts'
import { createRandom, type Random } from './random.ts'
import type { Report } from './report.ts'
import type { Scene } from './scene.ts'
import { startChaosHost } from './sandbox-host.ts'
import { effectsTable } from './tools.ts'

export interface StormOptions {
  seed: number
  kills: number
  /** It goes on until there was a kill in each field of the matrix, and complains of one without. */
  everyCell: boolean
  /** The storm ends after this time, whatever is left of the plan. */
  maxMs: number
  onProgress?: (line: string) => void
}

/** Everything that takes part. */
const sessionCount = 3
const callersPerSession = 2
const lifeCount = 3
/** A busy machine gets more than the half minute after which a row is tried again. */
const drainMs = 240_000

export async function runStorm(options: StormOptions): Promise<Report> {
  const startedAt = Date.now()
  const random = createRandom(options.seed)
  const folder = mkdtempSync(join(tmpdir(), 'gantry-chaos-'))
  const endings: (() => Promise<void>)[] = []
  try {
    const scene = await createScene(folder, random, endings)
    const stormMs = await blow(scene, options, random)
    const drainedMs = await drained(scene, drainMs)
    await Promise.all(scene.callers.map((caller) => caller.replayAll()))
    const counts = await checkAll(
      scene,
      join(folder, 'stack', 'worker', 'objects', 'gantry-SessionObject'),
    )
    return reportOf(scene, options, {
      ...counts,
      stormMs,
      drainedMs,
      totalMs: Date.now() - startedAt,
    })
  } finally {
    for (const end of endings.toReversed()) await end()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function createScene(
  folder: string,
  random: Random,
  endings: (() => Promise<void>)[],
): Promise<Scene> {
  const problems: string[] = []
  const complain = (problem: string) => void problems.push(problem)
  const crashes = await startCrashServer()
  endings.push(crashes.close)
  const effects = await startEffectsServer(join(folder, 'effects.jsonl'))
  endings.push(effects.close)
  let killer: Killer | undefined
  const up = () => killer?.up() ?? Promise.resolve()
  const calmSince = () => killer?.calmSince ?? null
  const clientOf = (token: string) =>
    new Client({ url: stack.url, authorization: `Bearer ${token}`, complain, up, calmSince })
  const startAgent = (spec: { sessionId: string; generation: number; token: string }) =>
    new ChaosAgent({
      ...spec,
      url: stack.url,
      client: clientOf(spec.token),
      random: createRandom(random.below(2 ** 31)),
      complain,
      up,
    })
  const host = await startChaosHost(startAgent)
  endings.push(host.close)
  const stack = await startStack({
    stateDir: join(folder, 'stack'),
    host: 'workerd',
    entry: join(root, 'test', 'chaos', 'worker.ts'),
    sandboxes: false,
    model: 'none',
    env: {
      GANTRY_CRASH_URL: crashes.url,
      EFFECTS_URL: effects.url,
      RATE_LIMIT_PER_MINUTE: '1000000',
      GANTRY_UNWALLED_APPROVALS: 'accept',
      SANDBOX_HOST_URL: host.url,
      SANDBOX_HOST_SECRET: 'chaos',
      SANDBOX_ROOT: '/nowhere',
      GANTRY_LIMITS: JSON.stringify({ sandboxesPerHour: 100_000, hoursPerDay: 240_000 }),
    },
    onDeath: (error) => complain(error.message),
  })
  endings.push(() => stack.stop())
  killer = new Killer(stack, crashes, random)
  const db = createLibsql({
    url: stack.sqld.url,
    token: stack.sqld.token,
    requestTimeoutMs: 60_000,
  })
  await db.batch([{ sql: effectsTable, values: [] }])
  const admin = clientOf(stack.adminKey)
  const tokens = createTokens(parseConfig(stack.env).tokenKeys, Date.now)
  const callers: Caller[] = []
  const agents: ChaosAgent[] = []
  for (let i = 0; i < sessionCount; i++) {
    const session = await admin.json<Session>('POST', '/v1/sessions', {
      title: `chaos ${i}`,
      sandbox: 'none',
    })
    if (!session) throw new Error('Cannot create a session')
    const claims = { sessionId: session.id, organisationId: session.organisationId, generation: 1 }
    const { token } = await tokens.mint(claims)
    const agent = startAgent({ ...claims, token })
    agents.push(agent)
    endings.push(async () => agent.stop())
    for (let j = 0; j < callersPerSession; j++) {
      const own = createRandom(random.below(2 ** 31))
      callers.push(
        new Caller({ sessionId: session.id, client: clientOf(token), random: own, complain }),
      )
    }
  }
  const operators = await createOperators({ admin, clientOf, random, complain })
  return {
    stack,
    db,
    crashes,
    effects,
    host,
    killer,
    admin,
    callers,
    agents,
    operators,
    lives: operators.map(({ options }) => ({
      sessionId: options.sessionId,
      turnIds: [],
      end: 'open',
    })),
    problems,
    complain,
  }
}

/** The workload goes on until the last strike, then everyone finishes what was begun. */
async function blow(scene: Scene, options: StormOptions, random: Random): Promise<number> {
  const startedAt = Date.now()
  let going = true
  const isGoing = () => going
  const work = [
    ...scene.callers.map((caller) => caller.run(isGoing)),
    ...scene.operators.map((operator) => operator.run(isGoing)),
    ...scene.agents.map((agent) => chatter(agent, isGoing)),
    ...Array.from({ length: lifeCount }, () =>
      live(
        {
          client: scene.admin,
          random: createRandom(random.below(2 ** 31)),
          complain: scene.complain,
          going: isGoing,
        },
        scene.lives,
      ),
    ),
  ]
  for (const strike of createPlan(random)) {
    const isWhole = !options.everyCell || scene.killer.missing.length === 0
    const done = scene.killer.kills >= options.kills && isWhole
    if (done || Date.now() - startedAt > options.maxMs) break
    // Once every cell has had its turn, kills at any time are cheaper: there is no point to wait for.
    if (strike.at === 'point' && scene.killer.missing.length === 0 && random.chance(0.6)) continue
    const struck = await scene.killer.strike(strike)
    options.onProgress?.(`${scene.killer.kills} kills, ${struck ?? 'nobody came by'}`)
  }
  const stormMs = Date.now() - startedAt
  going = false
  scene.killer.calmSince = Date.now()
  options.onProgress?.('Storm over')
  await Promise.all(work)
  options.onProgress?.('Everybody has finished')
  return stormMs
}

async function chatter(agent: ChaosAgent, going: () => boolean): Promise<void> {
  const { random } = agent.options
  while (going()) {
    agent.notice(1 + random.below(4))
    if (random.chance(0.05)) agent.cut()
    await sleep(100 + random.below(200))
  }
}

function reportOf(scene: Scene, options: StormOptions, counts: Report['counts']): Report {
  const { killer, crashes } = scene
  const unknown = counts['calls unknown'] ?? 0
  const unreached = crashPoints.filter((point) => crashes.hits.get(point) === 0)
  const { missing } = killer
  const problems = [
    ...scene.problems,
    ...(options.everyCell ? unreached : []).map((point) => `No process ever reached "${point}"`),
    ...(options.everyCell ? missing : []).map((cell) => `No kill at "${nameOf(cell)}"`),
    // A death interrupts at most the one call that each caller waits for.
    ...(unknown > killer.kills * scene.callers.length ? [`${unknown} calls are unknown`] : []),
    ...(killer.kills < options.kills ? [`Only ${killer.kills} of ${options.kills} kills`] : []),
  ]
  return {
    seed: options.seed,
    kills: killer.kills,
    struck: killer.struck,
    hits: crashes.hits,
    counts,
    problems,
  }
}
