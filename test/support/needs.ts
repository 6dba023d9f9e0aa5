import { test, type TestContext } from 'vitest'

export const isRoot = process.getuid?.() === 0

declare module 'vitest' {
  interface TaskMeta {
    /** Why it was skipped. */
    why?: string
  }
}

/** A test that not every machine can run. Where it cannot, its title says what is missing. */
export const needing =
  (has: boolean, what: string) =>
  (title: string, run: (context: TestContext) => Promise<void> | void, timeout?: number): void => {
    if (has) test(title, run, timeout)
    else test.skip(`${title} (needs ${what})`, run, timeout)
  }

export const asRoot = needing(isRoot, 'root')
export const onLinux = needing(process.platform === 'linux', 'Linux')

/** For what only the test itself can find out. */
export function unless(has: boolean, { task, skip }: TestContext, what: string): void {
  if (has) return
  task.meta.why = `needs ${what}`
  skip(task.meta.why)
}
