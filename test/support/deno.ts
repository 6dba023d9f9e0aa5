import { gatewayTools } from '../../src/core/session/calls/tools/registry.ts'
import { serve } from '../../src/deno.ts'
import { testTools } from './tools.ts'

serve([...gatewayTools, ...testTools])
