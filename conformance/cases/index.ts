import { bodyCases } from './bodies.ts'
import { callCases } from './calls.ts'
import type { Case } from './case.ts'
import { doorCases } from './doors.ts'
import { eventCases } from './events.ts'
import { lateCases } from './late.ts'
import { linkCases } from './link.ts'
import { repeatCases } from './repeats.ts'

export type { Case } from './case.ts'

export const cases: readonly Case[] = [
  ...doorCases,
  ...bodyCases,
  ...callCases,
  ...repeatCases,
  ...lateCases,
  ...linkCases,
  ...eventCases,
]
