/** Methods on the prototype, since RPC reaches nothing else. Each only carries its arguments to the actor behind it. */
export function addDoors<Api, Shell extends object>(
  prototype: Shell,
  names: readonly (keyof Api)[],
  actorOf: (shell: Shell) => Api,
): void {
  for (const name of names) {
    Object.defineProperty(prototype, name, {
      value: function (this: Shell, ...args: unknown[]) {
        const actor = actorOf(this)
        return (actor[name] as (...args: unknown[]) => unknown).apply(actor, args)
      },
    })
  }
}
