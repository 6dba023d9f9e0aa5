import type { Sql } from '../../src/core/ports.ts'

/** From here on, statements and transactions together; whoever asks for the number ends it. */
export function countStatements(sql: Sql): () => number {
  const plain = { ...sql }
  let count = 0
  const counted = <Given extends unknown[], T>(work: (...given: Given) => T) => {
    return (...given: Given): T => {
      count += 1
      return work(...given)
    }
  }
  Object.assign(sql, {
    run: counted((...given: Parameters<Sql['run']>) => plain.run(...given)),
    all: counted((...given: Parameters<Sql['all']>) => plain.all(...given)),
    transaction: counted((work: () => unknown) => plain.transaction(work)),
  })
  return () => {
    Object.assign(sql, plain)
    return count
  }
}
