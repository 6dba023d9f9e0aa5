import { accessSync, constants } from 'node:fs'

const places = ['/bin/bash', '/usr/bin/bash', '/usr/local/bin/bash', '/opt/homebrew/bin/bash']

/**
 * The one shell that runs commands, of OpenCode and of operations: commands are judged as bash reads them, and another shell
 * may read them in another way. By its path, so that no search path decides. Throws where there is none.
 */
export function shellPath(): string {
  const found = places.find(isProgram)
  if (found === undefined)
    throw new Error(
      `Cannot find bash: none of ${places.join(', ')} is a program. Commands are judged as bash reads them, so no other shell runs them`,
    )
  return found
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
