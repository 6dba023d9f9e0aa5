/** The whole answers with the doors of its part. */
export function lendDoors<Api extends object>(
  whole: Api,
  part: Api,
  names: readonly (keyof Api)[],
): void {
  for (const name of names) {
    const door = part[name] as (...args: unknown[]) => unknown
    Object.defineProperty(whole, name, { value: door.bind(part) })
  }
}
