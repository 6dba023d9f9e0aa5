// The few file operations that the agent's memory is made of. The journal, the memory and the results take them as an
// argument: on a sandbox they are Node's, and the simulation gives a disk that is full or loses power when it says so.

import {
  closeSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs'

export interface Disk {
  /** To read what is there and to add to its end; made if it is not there. */
  openToAppend(path: string): number
  /** Empty, whatever was there. */
  openNew(path: string): number
  read(file: number): Buffer
  /** How many bytes were written; fewer than given if there is no more room. */
  write(file: number, bytes: Buffer, from: number): number
  truncate(file: number, bytes: number): void
  sync(file: number): void
  close(file: number): void
  rename(from: string, to: string): void
}

const mode = 0o600

export const nodeDisk: Disk = {
  openToAppend: (path) => openSync(path, 'a+', mode),
  openNew: (path) => openSync(path, 'w', mode),
  read: (file) => readFileSync(file),
  write: (file, bytes, from) => writeSync(file, bytes, from),
  truncate: ftruncateSync,
  sync: fsyncSync,
  close: closeSync,
  rename: renameSync,
}

export function writeToDisk(disk: Disk, file: number, bytes: Buffer): void {
  for (let done = 0; done < bytes.length;) done += disk.write(file, bytes, done)
}
