import { gatewayTools } from '../../src/core/session/calls/tools/registry.ts'
import { serveDeno } from '../../src/deno.ts'
import { testTools } from './tools.ts'

serveDeno([...gatewayTools, ...testTools])
