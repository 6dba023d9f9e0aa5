import { expect, test } from 'vitest'
import { AppError } from '../../../src/contract/error.ts'
import { isLibsqlAway, isRowError, UnknownKind } from '../../../src/core/ledger/libsql-errors.ts'

const coded = (code: unknown, message = 'x') => Object.assign(new Error(message), { code })

test.each<[error: unknown, isRows: boolean]>([
  [new UnknownKind('x'), true],
  [new RangeError('Only finite numbers'), true],
  [new Error('SQLITE_ERROR: Malformed JSON'), true],
  [coded('SQLITE_CONSTRAINT_NOTNULL'), true],
  [coded('SQLITE_MISMATCH'), true],
  [coded('SQLITE_TOOBIG'), true],
  [coded('SQLITE_RANGE'), true],
  [coded('SQLITE_BUSY'), false],
  [coded('X_SQLITE_RANGE'), false],
  [coded(['SQLITE_RANGE']), false],
  [coded('SQLITE_ERROR', 'no such table: x'), false],
])('[OUT5] %s is the fault of its row: %s', (error, isRows) => {
  expect(isRowError(error)).toBe(isRows)
})

test.each([
  ['fetch failed', true],
  ['SQLITE_ERROR: no such table: x', false],
  ['SQLITE_ERROR: no such column: x', false],
  ['table x has no column named y', false],
])('[OUT9] after "%s" nothing can be written: %s', (message, isAway) => {
  const away = new AppError('storage_unavailable', 'away')
  expect(isLibsqlAway(Object.assign(away, { cause: new Error(message) }))).toBe(isAway)
  expect(isLibsqlAway(new Error(message))).toBe(false)
})
