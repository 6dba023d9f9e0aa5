import type { Layout } from '../../../contract/manifest.ts'

/**
 * Where the sandbox has the pinned folder of an ability, read-only: what a script of it knows as $ABILITY_DIR. It lies in
 * the agent's own folder, which OpenCode and scripts cannot write where their user is another one.
 */
export const executionFolder = (
  layout: Pick<Layout, 'configDir'> | null | undefined,
  hash: string,
): string => `${layout?.configDir ?? '/home/user/.config/gantry'}/abilities/${hash.slice(0, 32)}`
