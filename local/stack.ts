import { rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { binary, root } from './binaries.ts'
import {
  type ControlPlaneKind,
  type ControlPlaneSpec,
  gantryObjects,
  prepareControlPlane,
} from './control-plane.ts'
import { ensureFirstKey, type FirstKey } from './first-key.ts'
import { startGuardian } from './guardian.ts'
import { applyMigrations } from './migrations.ts'
import { ensureOperatorKey } from './operator-key.ts'
import { type PartFailed, startPart, untilReady } from './part.ts'
import { stackMark } from './processes.ts'
import { findSandboxPlace, openFolders, type SandboxPlace, sandboxRootIn } from './sandbox-users.ts'
import { type ScriptedModel, startScriptedModel } from './scripted-model.ts'
import { type Sqld, startSqld } from './sqld.ts'
import {
  assertNotRunning,
  choosePorts,
  loadSecrets,
  makePrivateDir,
  randomText,
  type Secrets,
  takeLock,
} from './state.ts'
import { supervise, type Supervised } from './supervise.ts'
import { claimUids } from './uids.ts'

export interface StackOptions {
  stateDir: string
  host: ControlPlaneKind
  /** The entry. Default: src/worker.ts, or src/deno.ts under Deno. */
  entry?: string
  /** Durable Object classes by binding. Default: Gantry's three. */
  objects?: Record<string, string>
  /** More bindings, or others: these win. */
  env?: Record<string, string>
  /** Default true. */
  sandboxes?: boolean
  /** scripted (default): starts one; otherwise the bindings that name the real one. */
  model?: 'scripted' | 'none' | Record<string, string>
  healthPath?: string
  /** A part ended by itself. Default: nothing; the stack stays up without it. */
  onDeath?: (error: PartFailed) => void
  /** Told what happens, with the milliseconds since the start. */
  onStep?: (what: string, ms: number) => void
  /** Passed to the sandbox host, such as deadlines. */
  hostOptions?: Record<string, unknown>
}

export interface Stack {
  url: string
  adminKey: string
  adminKeyPath: string
  organisationId: string
  mark: string
  stateDir: string
  /** What the control plane was given. */
  env: Record<string, string>
  sqld: Sqld
  worker: Supervised
  sandboxHost: (Supervised & { url: string; secret: string }) | null
  sandboxPlace: SandboxPlace | null
  model: ScriptedModel | null
  guardianPid(): number | undefined
  stop(): Promise<void>
  /** Stops it and removes its state and its sandboxes. */
  erase(): Promise<void>
}

/** Starts everything in order; when a part fails, ends what has been started and throws. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const stateDir = makePrivateDir(resolve(options.stateDir))
  assertNotRunning(stateDir)
  const ports = await choosePorts(stateDir, ['api', 'libsql', 'sandboxes', 'model'])
  const url = `http://127.0.0.1:${ports.api}`
  const startedAt = Date.now()
  const step = (what: string) => options.onStep?.(what, Date.now() - startedAt)
  const mark = `stk_${randomText(20, '0123456789abcdefghijklmnopqrstuvwxyz')}`
  const secrets = loadSecrets(stateDir)
  const onDeath = options.onDeath ?? (() => undefined)
  // In the order of starting; ended in the opposite one.
  const endings: (() => Promise<void> | void)[] = []
  // Started side by side, but the worker ends first: it is not to see its sandboxes die.
  let workerEnding: (() => Promise<void>) | undefined
  let hostEnding: (() => Promise<void>) | undefined
  let stopping: Promise<void> | undefined
  const stop = () => (stopping ??= endAll(endings))

  endings.push(takeLock(stateDir, url, mark))
  try {
    const claim = options.sandboxes === false ? undefined : claimUids()
    if (claim !== undefined) endings.push(claim.release)
    const roots = openFolders(stateDir).map(sandboxRootIn)
    const guardian = startGuardian(mark, claim && { uids: claim.uids, roots })
    endings.push(guardian.stop)
    const model = (options.model ?? 'scripted') === 'scripted' ? await startModel() : null

    const [place, { sqld, key }] = await Promise.all([
      options.sandboxes === false ? null : findSandboxPlace(stateDir, claim?.uids),
      startDatabase(),
    ])
    endings.push(async () => {
      await workerEnding?.()
      await hostEnding?.()
    })
    const [sandboxHost, worker] = await Promise.all([
      place === null ? null : startSandboxHost(place),
      startControlPlane(controlPlaneSpec(sqld, place, model)),
    ])
    return stackOf({ sqld, key, sandboxHost, place, model, worker, guardianPid: guardian.pid })
  } catch (error) {
    await stop()
    throw error
  }

  // What is started after the end would be ended by nobody.
  function assertGoing(): void {
    if (stopping !== undefined) throw new Error('The stack was stopped while it started')
  }

  async function startDatabase(): Promise<{ sqld: Sqld; key: FirstKey }> {
    const sqld = await startSqld({ stateDir, port: ports.libsql, mark, onDeath })
    endings.push(sqld.stop)
    step('libSQL server')
    const applied = await applyMigrations(sqld.url, sqld.token)
    step(`migrations (${applied.length} applied)`)
    return { sqld, key: await ensureFirstKey(stateDir, sqld.url, sqld.token) }
  }

  async function startControlPlane(spec: ControlPlaneSpec): Promise<Supervised> {
    const launch = await prepareControlPlane(spec)
    assertGoing()
    const worker = await supervise(launch, onDeath)
    workerEnding = worker.stop
    step('control plane')
    return worker
  }

  async function startModel(): Promise<ScriptedModel> {
    const model = await startScriptedModel({ apiKey: secrets.modelKey, port: ports.model })
    endings.push(model.close)
    return model
  }

  async function startSandboxHost(place: SandboxPlace) {
    const { buildAgent } = await import('../build/agent.ts')
    const agentFile = join(stateDir, 'agent.mjs')
    await buildAgent(agentFile)
    assertGoing()
    const hostUrl = `http://127.0.0.1:${ports.sandboxes}`
    const launch = async () => {
      const part = startPart({
        name: 'sandbox host',
        command: binary('node'),
        args: [join(root, 'local', 'host-main.ts')],
        env: {
          PATH: process.env['PATH'] ?? '',
          HOME: process.env['HOME'] ?? '/',
          [stackMark]: mark,
        },
        logFile: join(stateDir, 'sandbox-host.log'),
        input: JSON.stringify({
          secret: secrets.hostSecret,
          port: ports.sandboxes,
          root: place.root,
          stateDir: join(stateDir, 'agents'),
          mark,
          node: binary('node'),
          agentFile,
          opencode: place.opencode,
          path: place.path,
          uids: place.uids,
          ...options.hostOptions,
        }),
      })
      const headers = { authorization: `Bearer ${secrets.hostSecret}` }
      await untilReady(part, async () => (await fetch(`${hostUrl}/sandboxes`, { headers })).ok, {
        deadlineMs: 15_000,
      })
      return part
    }
    const host = await supervise(launch, onDeath)
    hostEnding = host.stop
    step('sandbox host')
    return { ...host, url: hostUrl, secret: secrets.hostSecret }
  }

  function controlPlaneSpec(
    sqld: Sqld,
    place: SandboxPlace | null,
    model: ScriptedModel | null,
  ): ControlPlaneSpec {
    return {
      kind: options.host,
      port: ports.api,
      stateDir,
      mark,
      entry: options.entry ?? join(root, 'src', options.host === 'deno' ? 'deno.ts' : 'worker.ts'),
      objects: options.objects ?? gantryObjects,
      healthPath: options.healthPath ?? '/healthz',
      bindings: bindingsOf(sqld, place, model),
    }
  }

  function bindingsOf(
    sqld: Sqld,
    place: SandboxPlace | null,
    model: ScriptedModel | null,
  ): Record<string, string> {
    return {
      ...secretBindings(secrets),
      GANTRY_OPERATOR_KEY: ensureOperatorKey(stateDir),
      LIBSQL_URL: sqld.url,
      LIBSQL_TOKEN: sqld.token,
      GANTRY_PUBLIC_URL: url,
      GANTRY_DEFAULT_SANDBOX: place === null ? 'none' : 'local',
      ...(place === null
        ? {}
        : {
            SANDBOX_HOST_URL: `http://127.0.0.1:${ports.sandboxes}`,
            SANDBOX_HOST_SECRET: secrets.hostSecret,
            SANDBOX_ROOT: place.root,
          }),
      ...(model === null
        ? {}
        : {
            GANTRY_MODEL_BASE_URL: model.url,
            GANTRY_MODEL_API_KEY: model.apiKey,
            GANTRY_MODEL: 'scripted',
          }),
      ...(typeof options.model === 'object' ? options.model : {}),
      ...options.env,
    }
  }

  function stackOf(parts: {
    sqld: Sqld
    key: FirstKey
    sandboxHost: Stack['sandboxHost']
    place: SandboxPlace | null
    model: ScriptedModel | null
    worker: Supervised
    guardianPid: () => number | undefined
  }): Stack {
    return {
      url,
      adminKey: parts.key.secret,
      adminKeyPath: parts.key.path,
      organisationId: parts.key.organisationId,
      mark,
      stateDir,
      env: bindingsOf(parts.sqld, parts.place, parts.model),
      sqld: parts.sqld,
      worker: parts.worker,
      sandboxHost: parts.sandboxHost,
      sandboxPlace: parts.place,
      model: parts.model,
      guardianPid: parts.guardianPid,
      stop,
      erase: async () => {
        await stop()
        for (const path of [stateDir, ...openFolders(stateDir)])
          rmSync(path, { recursive: true, force: true })
      },
    }
  }
}

const secretBindings = (secrets: Secrets) => ({
  GANTRY_ID_SECRET: secrets.idSecret,
  GANTRY_TOKEN_KEYS: secrets.tokenKeys,
  GANTRY_SEAL_KEYS: secrets.sealKeys,
})

// The guardian is among the first and so ends late: it takes whatever is left.
async function endAll(endings: (() => Promise<void> | void)[]): Promise<void> {
  for (const end of endings.splice(0).toReversed()) await end()
}
