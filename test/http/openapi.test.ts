import { expect, test } from 'vitest'
import { eventKinds } from '../../src/contract/events.ts'
import { createTestApp } from '../support/app.ts'

interface Body {
  content?: Record<string, { schema: Schema }>
}
interface Operation {
  operationId?: string
  security?: Record<string, string[]>[]
  requestBody?: Body
  responses: Record<string, Body>
}
interface Schema {
  $ref?: string
  properties?: Record<string, Schema>
  anyOf?: Schema[]
  items?: Schema
  contentSchema?: Schema
  discriminator?: { propertyName: string; mapping: Record<string, string> }
}
interface Document {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}

const testApp = createTestApp({
  db: () => {
    throw new Error('Not needed here')
  },
})
const document = (await testApp.call('GET', '/openapi.json')).json as Document
// Middleware for every route is listed too, under the method ALL.
const routes = testApp.app.routes.filter(({ method }) => method !== 'ALL')
const schemeOf = (path: string) => {
  if (path.startsWith('/v1/deployment/')) return 'operatorKey'
  return path.startsWith('/v1/') ? 'apiKey' : 'sandboxToken'
}
/** Routes without a guard. Anything else must be in the document, with its guard. */
const publicPaths = ['/healthz', '/readyz', '/openapi.json', '/.well-known/gantry-keys.json']
const documentPath = (path: string) => path.replaceAll(/:(\w+)(\{[^}]+\})?/g, '{$1}')

test('[API4] the document is OpenAPI 3.1', () => {
  expect(document.openapi).toBe('3.1.0')
  expect(routes.length).toBeGreaterThan(20)
})

for (const name of new Set(routes.map(({ method, path }) => `${method} ${path}`))) {
  const [method = '', path = ''] = name.split(' ')
  const isPublic = publicPaths.includes(path)
  test(`[API4] ${name} is ${isPublic ? 'marked public' : 'in the document, with its guard'}`, () => {
    if (path === '/openapi.json') return
    const operation = document.paths[documentPath(path)]?.[method.toLowerCase()]
    expect(operation).toBeDefined()
    const guards = (operation?.security ?? []).flatMap((scheme) => Object.keys(scheme))
    expect(guards).toEqual(isPublic ? [] : [schemeOf(path)])
    if (schemeOf(path) === 'apiKey') expect(operation?.security?.[0]?.['apiKey']).toHaveLength(1)
  })
}

test('[AUTH9] whoever has no credential gets an answer from four routes alone', async () => {
  const open: string[] = []
  for (const { method, path } of routes) {
    const { status } = await testApp.call(method, path.replaceAll(/:\w+(\{[^}]+\})?/g, 'x'))
    if (status !== 401) open.push(path)
  }
  expect([...new Set(open)].toSorted()).toEqual([
    '/.well-known/gantry-keys.json',
    '/healthz',
    '/openapi.json',
    '/readyz',
  ])
})

test('[API4] the document names no route that does not exist', () => {
  const known = new Set(routes.map(({ method, path }) => `${method} ${documentPath(path)}`))
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const method of Object.keys(operations)) {
      expect(known).toContain(`${method.toUpperCase()} ${path}`)
    }
  }
})

test('[API4] no route stands before another that it would answer for', () => {
  const shadowed = routes.flatMap(({ method, path }, index) =>
    routes
      .slice(0, index)
      .filter((earlier) => earlier.method === method && earlier.path !== path)
      .filter((earlier) => fits(earlier.path, path))
      .map((earlier) => `${method} ${earlier.path} before ${path}`),
  )
  expect([...new Set(shadowed)]).toEqual([])
  expect(fits('/v1/policies/:name', '/v1/policies/check')).toBe(true)
  expect(fits('/v1/policies/check', '/v1/policies/:name')).toBe(false)
})

/** Whether every request of the second path would be taken by the first. */
function fits(pattern: string, path: string): boolean {
  const parts = pattern.split('/')
  const asked = path.split('/')
  if (pattern.endsWith('/*') ? asked.length < parts.length : asked.length !== parts.length)
    return false
  return parts.every(
    (part, i) =>
      part === '*' || part === asked[i] || /^:\w+$/.test(part) || matches(part, asked[i]),
  )
}

/** A parameter with a pattern of its own takes only the words that are written like that. */
function matches(part: string, asked = ''): boolean {
  const own = /^:\w+\{(.+)\}$/.exec(part)?.[1]
  return own !== undefined && !asked.startsWith(':') && new RegExp(`^(?:${own})$`).test(asked)
}

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    operation,
  })),
)
const { schemas } = document.components
const refTo = (name: string) => `#/components/schemas/${name}`

/** Clients are generated from these: once released, an id stays. */
const operationIds = `
  abandonAttempt abortTurns acceptRunChanges activateAgent addCheckpoint addRunEvent
  addSkillVersion admitRetry applySkillProposal approvePhaseArtifact archiveAgent archiveProfile
  askPromotion getPromotion listPromotions resolvePromotion attachSkill backfillRunChanges callModelVendor callTool cancelEvalRun cancelExecution
  cancelSkillProposal changeRun changeSkillVersion checkPolicy checkProvider closeSession
  compareEvals correctBudget correctSessionBudget createConfiguration createEvalRun createKey
  createLoneRun createMember createMemory createRun createSandboxToken createSession createWebhook
  deleteConfiguration deleteEvalRun deleteMemory deleteProviderCredentials deleteSecret
  deleteSession deleteUpstream deleteWebhook detachSkill disableMember discardAttempt
  downloadArtifact downloadChangeText downloadPatch evaluateEvidence evaluateRetry executeAbility
  executeAttempt executeOperation finishRun getAbility getAbilityStatus getAgent getAgentByName
  getAgentRevision getApproval getBudget getBuiltinPolicy getChange getConfiguration
  getDeploymentKillSwitch getDeploymentStatus getDiff getEvalReport getEvalRun getExecution getExecutionFiles getExportKeys
  getHealth getKillSwitch getLimits getManifest getMember getMemory getOperation getPhaseArtifact
  getPhaseReadiness getPinnedAbility getPolicyVersion getProfile getProfileByName getReadiness
  getRun getRunBundle getSandboxEnv getSession getSessionBudget getSessionPolicy getSettings
  getSkill getSkillPayload getSkillProposal getSkillVersion getStatus getTurn getUpstream
  getWarmPool getWorkflow getWorstCase importMemories importPhaseArtifacts importRunChanges
  judgeSkill listAbilities listAbilityVersions listActions listAgentRevisions listAgents
  listApprovals listArtifacts listAudit listCalls listChangeHunks listChanges listConfigurations listDeadLetters
  listDeliveries listEnvRequests listEvalAttempts listEvalEvents listEvalRuns listEvents
  listExecutions listKeys listMembers listMemories listMemoryRevisions listModels listPatches
  listPhaseRevisions listPolicies listPolicyVersions listProfileRevisions listProfiles
  listProviders listRunApprovals listRunChanges listRunEvents listRuns listSecrets
  listSessionAbilities listSessionApprovals listSessionDeadLetters listSessionRuns listSessions
  listShippedAgents listSkillChanges listSkillProposals listSkillUsage listSkillVersions
  listSkills listSubagents listTurns listUsage listWebhooks makeEvalCase mergeAttempt openLink optionsUpstream
  patchUpstream planAbility planOperation postUpstream preflightOperation proposeSkill putAbility
  putAgent putBudget putDeploymentToSleep putEvidence putLimits putPolicy putProfile
  putSessionBudget putSettings putSkill putUpstream readFromModelVendor rejectRunChanges
  removeAbility removePolicy replaceSandbox replayPolicy resealSecrets resendDeadLetters
  resendSessionDeadLetters resolveAgents resolveApproval resolveSkillProposal resolveSkills
  resumeApproval resumeExecution resumeRun retrySandbox revokeApproval revokeKey rollBackSkill
  savePhaseArtifact searchMemories sendPrompt sendWorkspaceAbility setDeploymentKillSwitch
  setE2bCredentials setKillSwitch setModalCredentials setSecret storeShippedAgents submitEnvValues
  submitSkillProposal tellWorkspaceAbilities testWebhook updateConfiguration updateMemory
  updateSessionPolicy uploadArtifact validateAbility validateEvals verifyRun
  compareEvalRuns getEvalBaseline getEvalGate putEvalBaseline
`

test('[API12] every operation has an id of its own, and the ids stay as they are', () => {
  const ids = operations.map(({ operation }) => operation.operationId ?? '')
  expect(new Set(ids).size).toBe(operations.length)
  expect(ids.filter((id) => !/^[a-z]+([A-Z][a-z0-9]*)+$/.test(id))).toEqual([])
  expect(ids.toSorted()).toEqual(operationIds.trim().split(/\s+/).toSorted())
})

test('[API12] every body in JSON is a named schema, and a refusal is Error', () => {
  const wrong = operations.flatMap(({ name, operation: { requestBody = {}, responses } }) =>
    [['request', requestBody] as const, ...Object.entries(responses)].flatMap(([part, body]) => {
      const { $ref } = body.content?.['application/json']?.schema ?? { $ref: refTo('Error') }
      const isRefusal = part === 'default' || part.startsWith('4')
      return $ref && (!isRefusal || $ref === refTo('Error')) ? [] : [`${name} ${part}`]
    }),
  )
  expect(wrong).toEqual([])
})

test('[API12] every named schema is used, and every name that is used is there', () => {
  const references = JSON.stringify(document).matchAll(/"#\/components\/schemas\/([^"]*)"/g)
  const used = new Set(Array.from(references, ([, name = '']) => name))
  expect([...used].toSorted()).toEqual(Object.keys(schemas))
  expect(Object.keys(schemas)).toEqual(
    expect.arrayContaining(['Approval', 'Error', 'Run', 'RunPage', 'Session', 'Turn']),
  )
  expect(Object.keys(schemas).filter((name) => !/^[A-Z][A-Za-z0-9]*$/.test(name))).toEqual([])
})

test('[API12] what may be null besides a named schema is one of the two', () => {
  const { report } = schemas['Attempt']?.properties ?? {}
  expect(report).toMatchObject({ oneOf: [{ $ref: refTo('ExecutionReport') }, { type: 'null' }] })
  expect(JSON.stringify(document)).not.toContain('"allOf"')
  expect(JSON.stringify(document)).not.toContain('x-name')
})

test('[API12] each kind of event is described by a schema of its own', () => {
  expect(schemas['SessionEventPage']?.properties?.['items']?.items?.$ref).toBe(
    refTo('SessionEvent'),
  )
  const { anyOf = [], discriminator } = schemas['SessionEvent'] ?? {}
  expect(discriminator?.propertyName).toBe('kind')
  expect(Object.keys(discriminator?.mapping ?? {})).toEqual(Object.keys(eventKinds))
  expect(Object.values(discriminator?.mapping ?? {})).toEqual(anyOf.map(({ $ref }) => $ref))
  expect(schemas['TurnEndedEvent']?.properties).toMatchObject({
    kind: { enum: ['turn.ended'] },
    data: { properties: { turnId: { type: 'string' } } },
  })
})

test('[API12] the text of a policy is described by the schema of a policy document', () => {
  for (const name of ['PolicyPut', 'PolicyCheck', 'PolicyReplay', 'StoredPolicy'])
    expect(schemas[name]?.properties?.['source'], name).toMatchObject({
      contentMediaType: 'application/yaml',
      contentSchema: { $ref: refTo('PolicyDocument') },
    })
  const builtin = document.paths['/v1/policies/{name}']?.['get']?.responses['200']
  expect(builtin?.content?.['application/yaml']?.schema.$ref).toBe(refTo('PolicyDocument'))
  expect(JSON.stringify(document)).not.toMatch(/contract\/|\.ts\b/)
})
