import { z } from 'zod'
import { allModes } from '../mode.ts'
import type { ContractTool } from '../tool.ts'
import { isInnerPath } from './paths.ts'

export const defaultVerificationFolder = '.proliferate/.verification'

export const verifyTool = {
  name: 'verify',
  aliases: [],
  domain: 'gateway',
  modes: allModes,
  fileName: 'verify',
  args: z.strictObject({
    folder: z
      .string()
      .min(1)
      .max(500)
      .refine(isInnerPath, { error: 'Must be a relative path inside the workspace' })
      .optional()
      .describe(
        `Folder with the evidence files, relative to the workspace. Default: ${defaultVerificationFolder}`,
      ),
  }),
  description:
    'Upload verification evidence (screenshots, logs, test output) so that a person can review it.',
  guidance: [
    `Put the evidence of your work into ${defaultVerificationFolder}/ (or another folder that you name), then call this tool once.`,
    'Good evidence: test output, a screenshot of the changed page, a log that shows the fix. At most 100 files, 8 MiB each, 32 MiB in all.',
    'The answer names the place where the files are stored. If the folder is empty, nothing is stored and the answer says so.',
  ].join('\n'),
  onConflict: 'refuse',
} as const satisfies ContractTool
