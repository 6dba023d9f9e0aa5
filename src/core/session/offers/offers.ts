import type { FoundAbilities, PinnedFolder } from '../../../contract/ability-folder.ts'
import { AppError } from '../../../contract/error.ts'
import { OfferedAbility } from '../../../contract/offered-ability.ts'
import type { RoomOf } from '../../actor/room.ts'
import { findRunnableAbility } from '../../registry/abilities/abilities.ts'
import { hashAbilityFolder, readAbilityFolder } from '../../registry/abilities/folder.ts'
import { withHookFiles } from '../../registry/abilities/hook-files.ts'
import type { Commands } from '../commands/commands.ts'
import type { AbilityCopy } from '../executions/rows.ts'
import type { Caller, SandboxCaller } from '../record/caller.ts'
import { guardSession, guardOpenSandbox } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { offeredAbilities, workspacePrefix } from './offered.ts'
import {
  loadOfferFolder,
  saveOfferFolder,
  saveWorkspaceOffers,
  type WorkspaceAbility,
  findWorkspaceOffer,
  folderOfOffer,
} from './rows.ts'

export interface OffersApi {
  list(caller: Caller): Promise<OfferedAbility[]>
  /** As it is now, to be run; null: there is none of this name. */
  find(caller: Caller, name: string, version: number | null): Promise<AbilityCopy | null>
  /** The sandbox's: what lies in the workspace. */
  tell(sandbox: SandboxCaller, found: FoundAbilities): Promise<void>
  /** The sandbox's: the folder that it was asked for. */
  take(sandbox: SandboxCaller, hash: string, folder: PinnedFolder): Promise<void>
}

/**
 * Which abilities a session offers: stored ones that it names, and what the sandbox has found in the workspace. What runs
 * is never a file of the workspace: its folder is copied here by its hash first, and without trust in the repository a
 * person approves exactly that. HTTP, the model's tools and the agent ask it.
 */
export class Offers implements RoomOf<OffersApi> {
  readonly api: OffersApi = this
  readonly #kernel: SessionKernel
  readonly #commands: Commands
  /** By hash: folders that the sandbox has been asked for. */
  readonly #wanted = new Map<string, Promise<void>>()

  constructor(kernel: SessionKernel, commands: Commands) {
    this.#kernel = kernel
    this.#commands = commands
  }

  async list(caller: Caller): Promise<OfferedAbility[]> {
    guardSession(this.#kernel, caller)
    const { abilities } = offeredAbilities(this.#kernel.ports.sql)
    return abilities.map((one) => OfferedAbility.parse(one))
  }

  async find(caller: Caller, name: string, version: number | null): Promise<AbilityCopy | null> {
    guardSession(this.#kernel, caller)
    return await this.copyOf(name, version)
  }

  /** A stored one of the name counts before that of the workspace, unless the repository is trusted. */
  readonly copyOf = async (name: string, version: number | null): Promise<AbilityCopy | null> => {
    const { sql } = this.#kernel.ports
    const { trustProjectConfig: trusts } = this.#kernel.session()
    const isMeant = name.startsWith(workspacePrefix)
    const plain = isMeant ? name.slice(workspacePrefix.length) : name
    const found = findWorkspaceOffer(sql, plain)
    if (found && (isMeant || (trusts && version === null))) return await this.#copied(found, name)
    if (isMeant) return null
    const { organisationId, project } = this.#kernel.session()
    const stored = await findRunnableAbility(
      ...([this.#kernel.ports.db(), { organisationId, project }] as const),
      ...([plain, version] as const),
    )
    return stored ?? (found && version === null ? await this.#copied(found, name) : null)
  }

  /** Its definition is that of the files that have the hash. What the sandbox told of it must be the same. */
  async #copied(found: WorkspaceAbility, name: string): Promise<AbilityCopy> {
    const { path, hash, definition: told } = found
    if (told === null) throw new AppError('unprocessable', `Cannot read "${path}"`)
    await this.#bring(path, hash)
    const { sql, crypto } = this.#kernel.ports
    const files = loadOfferFolder(sql, hash)
    const { ability } = await readAbilityFolder({ files, path: folderOfOffer(found) }, crypto)
    if (JSON.stringify(ability) !== JSON.stringify(told))
      throw new AppError('wrong_state', `The ability at "${path}" is not what was told of it`)
    const { settings } = ability
    const { trustProjectConfig: trusts } = this.#kernel.session()
    const approval = trusts ? settings.approval : ('plan' as const)
    const own = { ...ability, name, settings: { ...settings, approval } }
    return {
      ...{ name, version: null, hash },
      definition: withHookFiles(own, files),
      files: files.map(({ path: one }) => one),
    }
  }

  /** Until its folder is here: several who want it at once wait for the same answer. */
  async #bring(path: string, hash: string): Promise<void> {
    const { sql } = this.#kernel.ports
    if (loadOfferFolder(sql, hash).length > 0) return
    const asked = this.#wanted.get(hash) ?? this.#askFor(path, hash)
    this.#wanted.set(hash, asked)
    try {
      await asked
    } finally {
      this.#wanted.delete(hash)
    }
    if (loadOfferFolder(sql, hash).length === 0)
      throw new AppError('wrong_state', `The ability at "${path}" has changed: look at it again`)
  }

  /** Anew each time: what was gone a moment ago may be there again. */
  async #askFor(path: string, hash: string): Promise<void> {
    const { generation } = this.#kernel.session()
    const id = `ability_${hash}_${this.#kernel.ports.crypto.random(8)}`
    await this.#commands.ask('ability', id, { path, hash }, generation)
  }

  async tell(sandbox: SandboxCaller, found: FoundAbilities): Promise<void> {
    guardOpenSandbox(this.#kernel, sandbox)
    this.#kernel.commit((sql, now) => saveWorkspaceOffers(sql, now, found))
  }

  async take(sandbox: SandboxCaller, hash: string, { files }: PinnedFolder): Promise<void> {
    guardOpenSandbox(this.#kernel, sandbox)
    if (!this.#wanted.has(hash)) throw new AppError('not_found', 'Nobody has asked for this folder')
    const real = await hashAbilityFolder(files, this.#kernel.ports.crypto)
    if (real !== hash)
      throw new AppError('unprocessable', `Expected the folder ${hash}, not ${real}`)
    guardOpenSandbox(this.#kernel, sandbox)
    this.#kernel.commit((sql) => saveOfferFolder(sql, hash, files))
  }
}
