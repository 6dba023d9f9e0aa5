import type { Fault } from './broken-gateway.ts'
import { callFaults } from './call-faults.ts'
import { linkFaults } from './link-faults.ts'

export const faults: readonly Fault[] = [...callFaults, ...linkFaults]

/**
 * The faults as rows and columns of a square. Two faults share one group at most, so a fault whose two groups fail in
 * exactly the expected cases can have failed in its own case only: fifteen runs show what fifty would.
 */
export function faultGroups(): Fault[][] {
  const side = Math.ceil(Math.sqrt(faults.length))
  const at = (fault: Fault) => faults.indexOf(fault)
  return Array.from({ length: side }, (_, n) => [
    faults.filter((fault) => Math.floor(at(fault) / side) === n),
    faults.filter((fault) => at(fault) % side === n),
  ])
    .flat()
    .filter((group) => group.length > 0)
}
