/** Real machines of the vendors' doubles, deaths in every phase, many sessions: only in `npm run test:long`. */
export const longOnly = [
  'test/adapters/{e2b-{hosts,provider},modal-provider}.test.ts',
  'test/blackbox/{guards,registry-kills,stall}.test.ts',
  'test/browser/*.test.ts',
  'test/http/body-costs.test.ts',
  'test/redteam/redteam.test.ts',
  'test/simulation/faults.test.ts',
  'test/e2e/{contract-{freeze,models,modes,modes-deno,organisations,secrets},ability-kills,agent-crashes,changes-faults,enclosed-{crashes,tools},e2b-agent,abilities,hostile,park,modal-agent,providers,recovery,evals,evals-{kills,twelve},skills,model-calls,operations,turns,zombie,fleet,lifecycle,link,warm-pool}.test.ts',
]

/** In `npm test`, too, where they do less. */
export const longToo = [
  'test/adapters/{e2b-{snapshot,start},modal-{sandboxes,snapshots}}.test.ts',
  'test/local/sandboxes/fleet.test.ts',
  'test/{http/{model-budgets,registry-crashes},sandbox-agent/enclosure/programs}.test.ts',
  'test/chaos/chaos.test.ts',
  'test/blackbox/{calls,conformance,fencing,limits,link,models,outage,restart,sessions,tokens,turns,upstreams}.test.ts',
  'test/core/{session,policy,session/runs,session/sandbox,organisation}/random.test.ts',
  'test/core/{documents,evidence/git,abilities/engine,session/abilities/crashes}.test.ts',
  'test/core/registry/{agents,skills}/resolve.test.ts',
  'test/core/{organisation/firewall/fleet,session/warm/fill}.test.ts',
  'test/core/session/budget/organisation-budgets.test.ts',
  'test/simulation/simulation.test.ts',
  'test/e2e/{changes,ending,gate,policy,secrets,spine}.test.ts',
]
