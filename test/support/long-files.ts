/** Real machines of the vendors' doubles, deaths in every phase, many sessions: only in `npm run test:long`. */
export const longOnly = [
  'test/adapters/{e2b-{hosts,provider},modal-provider}.test.ts',
  'test/blackbox/{registry-kills,stall}.test.ts',
  'test/browser/*.test.ts',
  'test/redteam/redteam.test.ts',
  'test/simulation/faults.test.ts',
  'test/e2e/{contract-{freeze,models,modes-deno,organisations},ability-kills,agent-crashes,changes-faults,enclosed-{crashes,tools},e2b-agent,park,modal-agent,providers,recovery,evals-{kills,twelve},zombie,fleet,lifecycle,warm-pool}.test.ts',
]

/** In `npm test`, too, where they do less. */
export const longToo = [
  'test/adapters/{e2b-{snapshot,start},modal-{sandboxes,snapshots}}.test.ts',
  'test/{http/registry-crashes,sandbox-agent/enclosure/programs}.test.ts',
  'test/chaos/chaos.test.ts',
  'test/blackbox/{calls,conformance,fencing,guards,limits,link,models,outage,restart,sessions,tokens,turns,upstreams}.test.ts',
  'test/core/{session,policy,session/runs,session/sandbox,organisation}/random.test.ts',
  'test/core/{documents,evidence/git,abilities/engine,session/abilities/crashes}.test.ts',
  'test/core/registry/{agents,skills}/resolve.test.ts',
  'test/core/{organisation/firewall/fleet,session/warm/fill}.test.ts',
  'test/core/session/budget/organisation-budgets.test.ts',
  'test/simulation/simulation.test.ts',
  'test/e2e/{contract-modes,ending,gate,hostile,link,policy,spine}.test.ts',
]
