import { z } from 'zod'
import { AppError, errorCodeOf } from '../../contract/error.ts'
import type { ProviderCheck, SandboxInfo, SandboxProvider } from '../../core/ports.ts'
import { gitFaultOfEnd } from './git-fault.ts'
import { createModalApp, type ModalApp, ModalTrouble } from './modal-app.ts'
import { remoteLaunchInput, launchScript, statusScript } from './remote-launch.ts'
import { remoteImage, remoteLayout } from './remote-layout.ts'
import { remoteScrubbedBytes, remoteScrubCommand, scrubMs } from './remote-scrub.ts'

export interface ModalOptions {
  /** Of the deployed app, such as `https://acme--gantry-web.modal.run`. */
  url: string
  /** The same as in the app's secret. */
  secret: string
  /** Of everything that this deployment makes at Modal: lower-case letters, digits and dashes. */
  deploymentLabel: string
  /** The name of a published image; without it the app's own. */
  image?: string | undefined
}

/** Of shapes.json. */
const shapesVersion = 1

/** Modal has no less. */
const minMemoryMb = 128

// A container is found and an image loaded within a create; a snapshot writes whole disks, twice.
const createMs = 90_000
const quickMs = 30_000
const stopMs = 60_000
const snapshotMs = 145_000

const Info = z.object({
  sessionId: z.string(),
  generation: z.number(),
  state: z.enum(['queued', 'running', 'exited']),
  reason: z.string().nullable(),
  startedAt: z.number(),
})
const List = z.object({ sandboxes: z.array(Info) })
const Taken = z.object({
  sessionId: z.string(),
  bytes: z.number().nullable(),
  scrubbed: z.object({ exitCode: z.number(), stdout: z.string(), stderr: z.string() }).nullable(),
})
const Checked = z.object({
  version: z.number(),
  image: z.object({ name: z.string(), found: z.boolean() }),
  sandboxes: z.number(),
})
const Done = z.object({})

/** Where a snapshot's folders are: in the copy that it is taken of, and in the sandbox that it is restored to. */
const gathered = '/gantry-snapshot'
const mounted = '/gantry-restore'
const { home, workspace } = remoteLayout
const { stateDir } = remoteImage

const gatherScript = `set -e
mkdir -m 700 ${gathered}
mv ${workspace} ${gathered}/workspace
mv ${home} ${gathered}/home
`
/** Copied, not left mounted: the next snapshot is to have it, too. Once, whoever asks twice. */
const restoreScript = `set -e
umask 077
mkdir -p ${stateDir} ${workspace} ${home}
exec 9> ${stateDir}/restoring
flock 9
[ ! -e ${stateDir}/restored ] || exit 0
cp -a ${mounted}/workspace/. ${workspace}/
cp -a ${mounted}/home/. ${home}/
touch ${stateDir}/restored
`

const withFault = (info: SandboxInfo): SandboxInfo =>
  info.state === 'exited' && info.reason !== null
    ? { ...info, ...gitFaultOfEnd(info.reason) }
    : info

/** The image that a session names itself is its user's to correct; the deployment's own is not. */
const ofImage =
  (image: string | null) =>
  (error: unknown): never => {
    const { message } = error as Error
    const isAboutImage = message.startsWith('Cannot start from image')
    if (errorCodeOf(error) !== 'unprocessable' || !isAboutImage || image !== null) throw error
    throw new AppError('sandbox_unavailable', message)
  }

/** Sandboxes at Modal. Nothing is remembered here; the app finds by name what was created though its answer was lost. */
export function createModalSandboxes(options: ModalOptions): SandboxProvider {
  const { deploymentLabel: label, image = null } = options
  if (!/^[a-z0-9-]{1,40}$/.test(label)) throw new Error(`Cannot use the label "${label}" at Modal`)
  const ask = createModalApp(options)

  return {
    layout: () => remoteLayout,
    create: async (spec): Promise<SandboxInfo> => {
      const { organisationId, sessionId, generation, snapshotId, limits } = spec
      const body = {
        ...{ label, organisationId, sessionId, generation, snapshotId },
        image: spec.image ?? image,
        memoryMb: limits.memoryMb === null ? null : Math.max(minMemoryMb, limits.memoryMb),
        lifetimeSeconds: limits.lifetimeSeconds,
        restore: snapshotId === null ? null : { folder: mounted, script: restoreScript },
        launch: { script: launchScript, input: remoteLaunchInput(spec, label) },
        status: statusScript,
      }
      return withFault(await ask('create', body, Info, createMs).catch(ofImage(spec.image)))
    },
    get: async (sessionId, generation): Promise<SandboxInfo | null> => {
      try {
        const body = { label, sessionId, generation, status: statusScript }
        return withFault(await ask('get', body, Info, quickMs))
      } catch (error) {
        if (errorCodeOf(error) === 'not_found') return null
        throw error
      }
    },
    list: async (organisationId) =>
      (await ask('list', { label, organisationId }, List, quickMs)).sandboxes,
    extend: async (sessionId, generation, seconds) => {
      await ask('extend', { label, sessionId, generation, seconds }, Done, quickMs)
    },
    stop: async (sessionId, generation) => {
      await ask('stop', { label, sessionId, generation }, Done, stopMs)
    },
    check: () => check(ask, label, image),
    snapshot: async (input) => {
      const { organisationId, sessionId, generation, snapshotId } = input
      const { args, input: order } = remoteScrubCommand(input)
      const body = {
        ...{ label, organisationId, sessionId, generation, snapshotId },
        status: statusScript,
        scrub: {
          command: args,
          input: order,
          gather: gatherScript,
          folder: gathered,
          seconds: scrubMs / 1000,
        },
      }
      const taken = await ask('snapshot', body, Taken, snapshotMs)
      if (taken.sessionId !== sessionId)
        throw new AppError('wrong_state', `Snapshot "${snapshotId}" is of another session`)
      if (taken.bytes !== null) return { snapshotId, bytes: taken.bytes }
      if (taken.scrubbed !== null) remoteScrubbedBytes(taken.scrubbed, input)
      throw new AppError('sandbox_unavailable', 'Cannot take the snapshot: no reason was given')
    },
    deleteSnapshot: async (organisationId, snapshotId) => {
      await ask('delete-snapshot', { label, organisationId, snapshotId }, Done, stopMs)
    },
  }
}

/** Asks only: nothing is started. */
async function check(ask: ModalApp, label: string, image: string | null): Promise<ProviderCheck[]> {
  try {
    return checksOf(await ask('check', { label, image }, Checked, quickMs))
  } catch (error) {
    const hint =
      error instanceof ModalTrouble
        ? error.hint
        : 'Check GANTRY_MODAL_URL, and at Modal whether the app is deployed and healthy'
    return [{ name: 'app', ok: false, message: (error as Error).message, hint }]
  }
}

function checksOf({ version, image, sandboxes }: z.infer<typeof Checked>): ProviderCheck[] {
  const isCurrent = version === shapesVersion
  return [
    { name: 'app', ok: true, message: `The app answers; sandboxes: ${sandboxes}`, hint: null },
    {
      name: 'version',
      ok: isCurrent,
      message: `The app speaks version ${version}, the control plane version ${shapesVersion}`,
      hint: isCurrent ? null : 'Deploy the app anew, from the checkout of the control plane',
    },
    {
      name: 'image',
      ok: image.found,
      message: `Image "${image.name}" is ${image.found ? 'published' : 'not published'}`,
      hint: image.found ? null : 'Run "modal run image.py", as sandbox-agent/modal/README.md says',
    },
  ]
}
