import { z } from 'zod'
import { Text } from '../ids.ts'
import { allModes } from '../mode.ts'
import type { ContractTool } from '../tool.ts'

export const saveSnapshotTool = {
  name: 'save_snapshot',
  aliases: [],
  domain: 'gateway',
  modes: allModes,
  fileName: 'save_snapshot',
  args: z.strictObject({
    message: Text(1000).optional().describe('What state this is, in one line'),
  }),
  description: 'Save the state of the workspace, so that this or later sessions can start from it.',
  guidance: [
    'Call it when the workspace is in a state worth keeping: dependencies are installed, services start, checks pass. In a setup session it is the last step.',
    'In a setup session the snapshot becomes the start of every later session of the configuration; elsewhere it belongs to this session.',
    'The sandbox may stand still for a moment while it is taken. Call it once and wait for the answer.',
    'Secrets are removed from the copy. If a known secret value is found in a file, the snapshot is refused and the answer names the file: move the value out of it, then call again.',
  ].join('\n'),
  onConflict: 'refuse',
} as const satisfies ContractTool
