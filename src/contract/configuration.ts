import { z } from 'zod'
import { ConfigurationId, OrganisationId, SnapshotId, Text } from './ids.ts'
import { Repository, SessionCreate } from './session.ts'
import { ServiceCommand } from './tools/save-commands.ts'
import { EnvFile } from './tools/save-env-files.ts'
import { WarmPool } from './warm-pool.ts'

/** What setup sessions find out about a project, so that later sessions start with it. */
export const Configuration = z.object({
  id: ConfigurationId,
  organisationId: OrganisationId,
  project: z.string(),
  name: z.string(),
  repository: z
    .object({
      url: z.string(),
      ref: z.string().nullable(),
      hasToken: z.boolean().describe('Whether a credential is stored; it is never returned'),
    })
    .nullable(),
  defaultModel: z.string().nullable(),
  trustProjectConfig: z.boolean(),
  serviceCommands: z.array(ServiceCommand),
  envFiles: z.array(EnvFile).describe('Which files to generate with which keys, never values'),
  baseSnapshotId: SnapshotId.nullable().describe('What new sandboxes start from'),
  warmPool: WarmPool,
  createdAt: z.number(),
  updatedAt: z.number(),
})
export type Configuration = z.infer<typeof Configuration>

/** A row of the list: without what may be long. */
export const ConfigurationRow = Configuration.omit({ serviceCommands: true, envFiles: true })
export type ConfigurationRow = z.infer<typeof ConfigurationRow>

const fields = {
  name: Text(100, 1).describe('Unique in its project'),
  defaultModel: Text(100, 1).nullable().describe("null: the deployment's default"),
  trustProjectConfig: SessionCreate.shape.trustProjectConfig.unwrap(),
  serviceCommands: z.array(ServiceCommand).max(10),
  envFiles: z.array(EnvFile).max(10),
  warmPool: WarmPool,
}

export const ConfigurationCreate = z.strictObject({
  project: SessionCreate.shape.project,
  name: fields.name,
  repository: Repository.nullable().default(null),
  defaultModel: fields.defaultModel.default(null),
  trustProjectConfig: fields.trustProjectConfig.default(false),
  serviceCommands: fields.serviceCommands.default([]),
  envFiles: fields.envFiles.default([]),
  warmPool: fields.warmPool.default({ size: 0 }),
})
export type ConfigurationCreate = z.infer<typeof ConfigurationCreate>

/** A field that is absent stays as it is; one that is given is replaced whole. */
export const ConfigurationUpdate = z
  .strictObject({
    ...fields,
    repository: Repository.extend({
      token: Repository.shape.token
        .unwrap()
        .nullable()
        .optional()
        .describe('Absent: the stored one stays if the URL does; null: it is removed'),
    }).nullable(),
    baseSnapshotId: SnapshotId.nullable(),
  })
  .partial()
export type ConfigurationUpdate = z.infer<typeof ConfigurationUpdate>
