// The stack: everything that `npm start` runs on one machine. It starts the guardian, the scripted model, the libSQL
// server with its schema and first key, the sandbox host and the control plane. If one of them fails, whatever has been
// started is ended, and the error says what to do. `stop` ends all in the opposite order; `erase` also removes the
// state. start.ts, the benches and the tests start it.

import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { binary, root } from '../binaries.ts'
import {
  type ControlPlaneKind,
  type ControlPlaneSpec,
  gantryObjects,
  prepareControlPlane,
} from './control-plane.ts'
import { ensureFirstKey, type FirstKey } from '../admin/first-key.ts'
import { startGuardian } from './guardian.ts'
import { endStaleLockHolder, lockState } from '../state/lock.ts'
import { applyMigrations } from '../database/migrations.ts'
import { ensureOperatorKey } from '../admin/operator-key.ts'
import { type PartFailed, startPart, untilPartReady } from '../processes/part.ts'
import { stackMark } from '../processes/processes.ts'
import {
  findSandboxSite,
  siteFolders,
  type SandboxSite,
  sandboxRootIn,
} from '../users/sandbox-site.ts'
import { putToSleep } from './put-to-sleep.ts'
import { type ScriptedModel, startScriptedModel } from '../model/scripted-model.ts'
import { type Sqld, startSqld } from '../database/sqld.ts'
import { choosePorts } from '../state/ports.ts'
import { loadSecrets, randomText, type Secrets } from '../state/secrets.ts'
import { makePrivateDir } from '../state/private-files.ts'
import { supervise, type Supervised } from '../processes/supervise.ts'
import { claimUids } from '../users/uids.ts'
import { localRepositories } from '../../src/variable-forms.ts'

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
  /** Called with what has been started, and the milliseconds since the start. */
  onProgress?: (what: string, ms: number) => void
  /** More bindings, once it is known where sandboxes live. Default: approvals are accepted whatever holds them. */
  siteBindings?: (site: SandboxSite) => Promise<Record<string, string>>
  /** Passed to the sandbox host, such as deadlines. */
  hostOptions?: Record<string, unknown>
}

export interface Stack {
  url: string
  adminKey: string
  adminKeyPath: string
  organisationId: string
  /** Whether the state folder was new. */
  isFirst: boolean
  mark: string
  stateDir: string
  /** What the control plane was given. */
  env: Record<string, string>
  sqld: Sqld
  worker: Supervised
  sandboxHost: (Supervised & { url: string; secret: string }) | null
  sandboxSite: SandboxSite | null
  model: ScriptedModel | null
  guardianPid(): number | undefined
  /** Saves every sandbox and puts it to sleep. Told how many are left; ends when none is, or when it is skipped. */
  save(onLeft: (left: number) => void, skip: AbortSignal): Promise<boolean>
  stop(): Promise<void>
  /** Stops it and removes its state and its sandboxes. */
  erase(): Promise<void>
}

export async function startStack(options: StackOptions): Promise<Stack> {
  const stateDir = makePrivateDir(resolve(options.stateDir))
  const held = lockState(stateDir)
  const startedAt = Date.now()
  const report = (what: string) => options.onProgress?.(what, Date.now() - startedAt)
  const ports = await endEarlier()
    .then(() => choosePorts(stateDir, ['api', 'libsql', 'sandboxes', 'model']))
    .catch((error: unknown) => {
      held.giveUp()
      throw error
    })
  const url = `http://127.0.0.1:${ports.api}`
  const mark = `stk_${randomText(20, '0123456789abcdefghijklmnopqrstuvwxyz')}`
  const secrets = loadSecrets(stateDir)
  const onDeath = options.onDeath ?? (() => undefined)
  // In the order of starting; ended in the opposite one.
  const endings: (() => Promise<void> | void)[] = []
  // They are started at the same time, but the worker ends first: it must not see its sandboxes die.
  let workerEnding: (() => Promise<void>) | undefined
  let hostEnding: (() => Promise<void>) | undefined
  let stopping: Promise<void> | undefined
  const stop = () => (stopping ??= endAll(endings))

  held.describe({ url, mark })
  endings.push(() => held.release())
  try {
    const claim = options.sandboxes === false ? undefined : claimUids()
    if (claim !== undefined) endings.push(claim.release)
    const roots = siteFolders(stateDir).map(sandboxRootIn)
    const guardian = startGuardian(mark, claim && { uids: claim.uids, roots })
    endings.push(guardian.stop)
    const model = (options.model ?? 'scripted') === 'scripted' ? await startModel() : null

    const [site, { sqld, key }] = await Promise.all([
      options.sandboxes === false ? null : findSandboxSite(stateDir, claim?.uids),
      startDatabase(),
    ])
    const ofSite = await siteBindings(site)
    endings.push(async () => {
      await workerEnding?.()
      await hostEnding?.()
    })
    const [sandboxHost, worker] = await Promise.all([
      site === null ? null : startSandboxHost(site),
      startControlPlane(controlPlaneSpec(sqld, site, model, ofSite)),
    ])
    const parts = { sqld, key, sandboxHost, site, model, worker, guardianPid: guardian.pid }
    return stackOf(parts, bindingsOf(sqld, site, model, ofSite))
  } catch (error) {
    await stop()
    throw error
  }

  // Before ports are chosen: then the ports of an earlier stack are free again, and its addresses stay valid.
  async function endEarlier(): Promise<void> {
    const ended = held.left === undefined ? 0 : await endStaleLockHolder(held.left, stateDir)
    if (ended > 0) report(`ended ${ended} processes of an earlier start`)
  }

  async function siteBindings(site: SandboxSite | null): Promise<Record<string, string>> {
    if (site === null) return {}
    const { siteBindings: ask } = options
    return ask ? await ask(site) : { GANTRY_UNWALLED_APPROVALS: 'accept' }
  }

  // Nobody would end a part that is started after the stop.
  function assertGoing(): void {
    if (stopping !== undefined) throw new Error('The stack was stopped while it started')
  }

  async function startDatabase(): Promise<{ sqld: Sqld; key: FirstKey }> {
    const sqld = await startSqld({ stateDir, port: ports.libsql, mark, onDeath })
    endings.push(sqld.stop)
    report('libSQL server')
    const applied = await applyMigrations(sqld.url, sqld.token, undefined, (names) =>
      report(`a newer release was here: it has added ${names.join(', ')}`),
    )
    report(`migrations (${applied.length} applied)`)
    return { sqld, key: await ensureFirstKey(stateDir, sqld.url, sqld.token) }
  }

  async function startControlPlane(spec: ControlPlaneSpec): Promise<Supervised> {
    const launch = await prepareControlPlane(spec)
    assertGoing()
    const worker = await supervise(launch, onDeath)
    workerEnding = worker.stop
    report('control plane')
    return worker
  }

  async function startModel(): Promise<ScriptedModel> {
    const model = await startScriptedModel({ apiKey: secrets.modelKey, port: ports.model })
    endings.push(model.close)
    return model
  }

  async function startSandboxHost(site: SandboxSite) {
    const { buildAgent } = await import('../../build/agent.ts')
    const agentFile = join(stateDir, 'agent.mjs')
    await buildAgent(agentFile)
    assertGoing()
    const hostUrl = `http://127.0.0.1:${ports.sandboxes}`
    const launch = async () => {
      const part = startPart({
        name: 'sandbox host',
        command: binary('node'),
        args: [join(root, 'local', 'host', 'main.ts')],
        env: {
          PATH: process.env['PATH'] ?? '',
          HOME: process.env['HOME'] ?? '/',
          TMPDIR: tmpdir(),
          [stackMark]: mark,
        },
        logFile: join(stateDir, 'sandbox-host.log'),
        input: JSON.stringify({
          secret: secrets.hostSecret,
          port: ports.sandboxes,
          root: site.root,
          stateDir: join(stateDir, 'agents'),
          mark,
          node: binary('node'),
          agentFile,
          opencode: site.opencode,
          path: site.path,
          uids: site.uids,
          localRepositories: localRepositoriesOf(options.env ?? {}),
          hidden: [stateDir],
          enclosure: options.env?.['GANTRY_ENCLOSURE'],
          ...options.hostOptions,
        }),
      })
      const headers = { authorization: `Bearer ${secrets.hostSecret}` }
      await untilPartReady(
        part,
        async () => (await fetch(`${hostUrl}/sandboxes`, { headers })).ok,
        {
          deadlineMs: 60_000,
        },
      )
      return part
    }
    const host = await supervise(launch, onDeath)
    hostEnding = host.stop
    report('sandbox host')
    return { ...host, url: hostUrl, secret: secrets.hostSecret }
  }

  function controlPlaneSpec(
    sqld: Sqld,
    site: SandboxSite | null,
    model: ScriptedModel | null,
    ofSite: Record<string, string>,
  ): ControlPlaneSpec {
    return {
      kind: options.host,
      port: ports.api,
      stateDir,
      mark,
      entry: options.entry ?? join(root, 'src', options.host === 'deno' ? 'deno.ts' : 'worker.ts'),
      objects: options.objects ?? gantryObjects,
      healthPath: options.healthPath ?? '/healthz',
      bindings: bindingsOf(sqld, site, model, ofSite),
    }
  }

  function bindingsOf(
    sqld: Sqld,
    site: SandboxSite | null,
    model: ScriptedModel | null,
    ofSite: Record<string, string>,
  ): Record<string, string> {
    return {
      ...secretBindings(secrets),
      GANTRY_OPERATOR_KEY: ensureOperatorKey(stateDir),
      LIBSQL_URL: sqld.url,
      LIBSQL_TOKEN: sqld.token,
      GANTRY_PUBLIC_URL: url,
      GANTRY_DEFAULT_SANDBOX: site === null ? 'none' : 'local',
      ...(site === null
        ? {}
        : {
            SANDBOX_HOST_URL: `http://127.0.0.1:${ports.sandboxes}`,
            SANDBOX_HOST_SECRET: secrets.hostSecret,
            SANDBOX_ROOT: site.root,
          }),
      ...(model === null
        ? {}
        : {
            GANTRY_MODEL_BASE_URL: model.url,
            GANTRY_MODEL_API_KEY: model.apiKey,
            GANTRY_MODEL: 'scripted',
          }),
      ...ofSite,
      ...(typeof options.model === 'object' ? options.model : {}),
      ...options.env,
    }
  }

  function stackOf(
    parts: {
      sqld: Sqld
      key: FirstKey
      sandboxHost: Stack['sandboxHost']
      site: SandboxSite | null
      model: ScriptedModel | null
      worker: Supervised
      guardianPid: () => number | undefined
    },
    env: Record<string, string>,
  ): Stack {
    return {
      url,
      adminKey: parts.key.secret,
      adminKeyPath: parts.key.path,
      organisationId: parts.key.organisationId,
      isFirst: parts.key.created,
      mark,
      stateDir,
      env,
      sqld: parts.sqld,
      worker: parts.worker,
      sandboxHost: parts.sandboxHost,
      sandboxSite: parts.site,
      model: parts.model,
      guardianPid: parts.guardianPid,
      save: (onLeft, skip) => putToSleep(url, ensureOperatorKey(stateDir), onLeft, skip),
      stop,
      erase: async () => {
        await stop()
        for (const path of [stateDir, ...siteFolders(stateDir)])
          rmSync(path, { recursive: true, force: true })
      },
    }
  }
}

const secretBindings = (secrets: Secrets) => ({
  GANTRY_ID_SECRET: secrets.idSecret,
  GANTRY_TOKEN_KEYS: secrets.tokenKeys,
  GANTRY_SEAL_KEYS: secrets.sealKeys,
  GANTRY_EXPORT_KEYS: secrets.exportKeys,
})

/** The control plane says what is wrong with it. */
const localRepositoriesOf = (env: Record<string, string>): string[] =>
  localRepositories.safeParse(env['GANTRY_LOCAL_REPOSITORIES']).data ?? []

// The guardian is started early and so is stopped late: then it ends whatever is left.
async function endAll(endings: (() => Promise<void> | void)[]): Promise<void> {
  for (const end of endings.splice(0).toReversed()) await end()
}
