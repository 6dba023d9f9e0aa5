// Starts the control plane as a part of the stack, on one of four hosts: Miniflare, `wrangler dev`, workerd alone, or
// Deno. Secrets reach it by standard input or by its environment, never by arguments or files. It counts as ready when
// its health path answers 200. The stack calls it, and so do tests that need one host alone.

import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runCache } from '../../build/once.ts'
import { buildWorker } from '../../build/worker.ts'
import { binary, root } from '../binaries.ts'
import { type Part, type PartSpec, startPart, untilPartReady } from '../processes/part.ts'
import { stackMark } from '../processes/processes.ts'
import type { MiniflareTask } from './miniflare-main.ts'
import type { WranglerTask } from './wrangler-main.ts'

/**
 * miniflare: the bundle under Miniflare's API, what `npm start` uses. wrangler: `wrangler dev`, over the same folder.
 * workerd: the runtime alone on a bundle, which starts in a tenth of a second and may be killed at any moment. deno: the
 * other host.
 */
export const controlPlaneKinds = ['miniflare', 'wrangler', 'workerd', 'deno'] as const
export type ControlPlaneKind = (typeof controlPlaneKinds)[number]

export interface ControlPlaneSpec {
  kind: ControlPlaneKind
  port: number
  stateDir: string
  mark: string
  /** The file that the host runs. */
  entry: string
  /** Of workerd: what `npm run build` has made of it. Default: it is bundled anew. */
  bundle?: string
  /** Durable Object classes by binding. */
  objects: Record<string, string>
  /** Text bindings, or environment variables under Deno. */
  bindings: Record<string, string>
  /** Answers 200 once it is up. */
  healthPath: string
}

export const gantryObjects = {
  SESSION: 'SessionObject',
  ORGANISATION: 'OrganisationObject',
  LEDGER: 'LedgerObject',
  EVAL: 'EvalObject',
}

/** Builds what must be built, and returns the way to launch it, as often as wanted. */
export async function prepareControlPlane(spec: ControlPlaneSpec): Promise<() => Promise<Part>> {
  const dataDir = join(spec.stateDir, 'worker')
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const partSpec = await partSpecs[spec.kind](spec, dataDir)
  const url = `http://127.0.0.1:${spec.port}${spec.healthPath}`
  return async () => {
    const part = startPart(partSpec)
    const probe = async () => {
      const response = await fetch(url, { signal: AbortSignal.timeout(5000) })
      await response.body?.cancel()
      return response.status === 200
    }
    await untilPartReady(part, probe, { deadlineMs: 60_000 })
    return part
  }
}

const partSpecs = {
  miniflare: async (spec: ControlPlaneSpec, dataDir: string): Promise<PartSpec> => {
    const script = join(dataDir, 'worker.js')
    await buildWorker(spec.entry, script)
    const task: MiniflareTask = {
      name: wranglerSetting('name'),
      script,
      compatibilityDate: wranglerSetting('compatibility_date'),
      port: spec.port,
      persistTo: join(dataDir, 'v3'),
      objects: spec.objects,
      bindings: spec.bindings,
    }
    return {
      ...common(spec, 'control plane'),
      command: binary('node'),
      args: [join(root, 'local', 'stack', 'miniflare-main.ts')],
      cwd: root,
      input: JSON.stringify(task),
      env: { ...environment(spec), TMPDIR: freshTemporary(spec.stateDir) },
    }
  },

  wrangler: async (spec: ControlPlaneSpec, dataDir: string): Promise<PartSpec> => {
    const task: WranglerTask = {
      config: join(root, 'wrangler.toml'),
      entry: spec.entry,
      port: spec.port,
      persistTo: dataDir,
      bindings: spec.bindings,
    }
    return {
      ...common(spec, 'control plane (wrangler dev)'),
      command: binary('node'),
      args: [join(root, 'local', 'stack', 'wrangler-main.ts')],
      cwd: root,
      input: JSON.stringify(task),
      env: {
        ...environment(spec),
        XDG_CONFIG_HOME: join(spec.stateDir, 'wrangler'),
        TMPDIR: freshTemporary(spec.stateDir),
        // Nothing is fetched from or sent to anywhere.
        CLOUDFLARE_CF_FETCH_ENABLED: 'false',
        CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV: 'false',
        WRANGLER_SEND_METRICS: 'false',
        WRANGLER_SEND_ERROR_REPORTS: 'false',
        WRANGLER_HIDE_BANNER: 'true',
        X_LOCAL_OBSERVABILITY: 'false',
        // Would let anyone on this machine read and change every object's storage, without a key.
        X_LOCAL_EXPLORER: 'false',
      },
    }
  },

  workerd: async (spec: ControlPlaneSpec, dataDir: string): Promise<PartSpec> => {
    const objectsDir = join(dataDir, 'objects')
    mkdirSync(objectsDir, { recursive: true, mode: 0o700 })
    const bundle = join(dataDir, 'worker.js')
    // As it is deployed.
    if (spec.bundle === undefined) await buildWorker(spec.entry, bundle, { minify: true })
    else copyFileSync(spec.bundle, bundle)
    const config = join(dataDir, 'config.capnp')
    writeFileSync(config, capnpOf(spec, objectsDir), { mode: 0o600 })
    return {
      ...common(spec, 'control plane (workerd)'),
      command: binary('workerd'),
      args: ['serve', config],
      env: { ...environment(spec), ...spec.bindings },
    }
  },

  deno: async (spec: ControlPlaneSpec, dataDir: string): Promise<PartSpec> => ({
    ...common(spec, 'control plane (Deno)'),
    command: binary('deno'),
    args: ['run', '--allow-all', '--no-prompt', spec.entry],
    cwd: root,
    env: {
      ...environment(spec),
      ...spec.bindings,
      PORT: String(spec.port),
      GANTRY_DATA_DIR: dataDir,
      DENO_DIR: join(runCache() ?? spec.stateDir, 'deno'),
      DENO_NO_UPDATE_CHECK: '1',
    },
  }),
}

// wrangler leaves its temporary folders behind when it is killed.
function freshTemporary(stateDir: string): string {
  const path = join(stateDir, 'tmp')
  rmSync(path, { recursive: true, force: true })
  mkdirSync(path, { mode: 0o700 })
  return path
}

const common = (spec: ControlPlaneSpec, name: string) => ({
  name,
  logFile: join(spec.stateDir, 'control-plane.log'),
})

const environment = (spec: ControlPlaneSpec) => ({
  PATH: process.env['PATH'] ?? '',
  HOME: process.env['HOME'] ?? spec.stateDir,
  [stackMark]: spec.mark,
  // An authority of the operator's own. Miniflare and Wrangler hand it on to workerd.
  ...(process.env['NODE_EXTRA_CA_CERTS'] && {
    NODE_EXTRA_CA_CERTS: process.env['NODE_EXTRA_CA_CERTS'],
  }),
})

// The values come from the environment, so that no secret is in the file or in the arguments.
function capnpOf(spec: ControlPlaneSpec, objectsDir: string): string {
  const classes = [...new Set(Object.values(spec.objects))]
  const bindings = [
    ...Object.entries(spec.objects).map(
      ([name, type]) => `(name = "${name}", durableObjectNamespace = "${type}")`,
    ),
    ...Object.keys(spec.bindings).map((name) => `(name = "${name}", fromEnvironment = "${name}")`),
  ]
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .mainWorker),
    (name = "internet", network = (allow = ["public", "private", "local"], tlsOptions = (trustBrowserCas = true))),
    (name = "objects", disk = (path = ${JSON.stringify(objectsDir)}, writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${spec.port}", http = (), service = "main")],
);
const mainWorker :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = "${wranglerSetting('compatibility_date')}",
  bindings = [
    ${bindings.join(',\n    ')},
  ],
  durableObjectNamespaces = [
    ${classes.map((type) => `(className = "${type}", uniqueKey = "gantry-${type}", enableSql = true)`).join(',\n    ')},
  ],
  durableObjectStorage = (localDisk = "objects"),
  globalOutbound = "internet",
);
`
}

function wranglerSetting(name: 'name' | 'compatibility_date'): string {
  const settings = readFileSync(join(root, 'wrangler.toml'), 'utf8')
  const found = new RegExp(`^${name} = "([^"]+)"`, 'm').exec(settings)
  if (found?.[1] === undefined) throw new Error(`wrangler.toml has no ${name}`)
  return found[1]
}
