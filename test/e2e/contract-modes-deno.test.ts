import { contractOn } from './contract-modes-suite.ts'

contractOn('deno')
