/** The twenty characters after the prefix of the operation's id: a repeated call takes the same snapshot. */
export function snapshotIdOf(operationId: string): string {
  const characters = operationId.slice(operationId.indexOf('_') + 1)
  return `snp_${characters.slice(0, 20)}`
}
