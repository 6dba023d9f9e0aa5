import type { Disk } from '../../../sandbox-agent/memory/disk.ts'
import type { Process } from './process.ts'

/**
 * The disk of one sandbox, in memory. It outlives the agent. It can be full, and it can lose its power in the middle of a
 * write: then a part of the bytes is there, and the agent that wrote them is dead.
 */
export class SimulatedDisk {
  readonly files = new Map<string, Buffer>()
  isFull = false
  /** So many writes from now the power goes. Null: it stays. */
  failsIn: { writes: number; share: number } | null = null

  /** As one process sees it. What a dead one writes is lost. */
  for(owner: Process): Disk {
    const open = new Map<number, string>()
    const opened = (path: string): number => {
      open.set(open.size + 1, path)
      return open.size
    }
    const contentOf = (path: string) => this.files.get(path) ?? Buffer.alloc(0)
    const store = (path: string, content: Buffer) => {
      if (owner.isAlive) this.files.set(path, content)
    }
    const pathOf = (file: number) => open.get(file) ?? ''
    return {
      openToAppend: (path) => (store(path, contentOf(path)), opened(path)),
      openNew: (path) => (store(path, Buffer.alloc(0)), opened(path)),
      read: (file) => contentOf(pathOf(file)),
      write: (file, bytes, from) => {
        const path = pathOf(file)
        const wanted = bytes.subarray(from)
        const given = wanted.subarray(0, this.#room(wanted.length, owner))
        store(path, Buffer.concat([contentOf(path), given]))
        if (this.#isPowerGone()) owner.die()
        else if (this.isFull) throw Object.assign(new Error('No space left'), { code: 'ENOSPC' })
        return wanted.length
      },
      truncate: (file, bytes) => store(pathOf(file), contentOf(pathOf(file)).subarray(0, bytes)),
      sync: () => undefined,
      close: () => undefined,
      rename: (from, to) => {
        store(to, contentOf(from))
        if (owner.isAlive) this.files.delete(from)
      },
    }
  }

  #room(wanted: number, owner: Process): number {
    if (this.failsIn && owner.isAlive) this.failsIn.writes -= 1
    if (this.failsIn?.writes === 0) return Math.floor(wanted * this.failsIn.share)
    return this.isFull ? Math.floor(wanted / 2) : wanted
  }

  #isPowerGone(): boolean {
    const isGone = this.failsIn?.writes === 0
    if (isGone) this.failsIn = null
    return isGone
  }
}
