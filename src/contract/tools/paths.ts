import { Text } from '../ids.ts'

/** Relative and inside, also to a program that takes "\" for a separator or "C:" for a drive. "a..b" is an ordinary name. */
export const isInnerPath = (path: string): boolean =>
  !path.startsWith('/') &&
  !path.includes('\\') &&
  !path.includes('\u0000') &&
  !/^[A-Za-z]:/.test(path) &&
  !path.split('/').includes('..')

export const InnerPath = (max: number, min = 0) =>
  Text(max, min).refine(isInnerPath, {
    error: 'Must be a relative path without "..", backslash or drive letter',
  })

/** Where in the workspace: services and env files of a monorepo have different ones. */
export const WorkspacePath = InnerPath(500)
  .default('.')
  .describe('Folder of the repository, relative to the workspace. Default: "."')

/** Written into dotenv files, so nothing that could end the name there. */
export const EnvKey = Text(200, 1).refine((key) => !/[\s=#'"`\p{Cc}]/u.test(key), {
  error: 'Must not contain whitespace, "=", "#" or quotes',
})
