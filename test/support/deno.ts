import { gatewayTools } from '../../src/core/gateway/registry.ts'
import { serve } from '../../src/deno.ts'
import { testTools } from './tools.ts'

serve([...gatewayTools, ...testTools])
