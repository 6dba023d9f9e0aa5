import * as killSwitchSchemas from '../../contract/kill-switch.ts'
import { DeploymentKillSwitch, KillSwitch, KillSwitchChange } from '../../contract/kill-switch.ts'
import * as shutdownSchemas from '../../contract/shutdown.ts'
import { SandboxesLeft } from '../../contract/shutdown.ts'
import { deploymentId } from '../../core/organisation/record/ports.ts'
import { ok, route } from '../kit/route.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(killSwitchSchemas, shutdownSchemas)

const tag = 'kill switch'

/** What stops every sandbox: of an organisation, and of the deployment for whoever runs it. */
export const killSwitchRoutes = [
  route({
    id: 'getKillSwitch',
    method: 'get',
    path: '/v1/kill-switch',
    summary: 'Whether the kill switch is on, and what still lives',
    tag,
    guard: 'read',
    answers: ok(KillSwitch, 'The switch'),
    refuses: [],
    answer: ({ organisation }) => organisation.firewall.killSwitch(),
  }),

  route({
    id: 'setKillSwitch',
    method: 'post',
    path: '/v1/kill-switch',
    summary: 'Stop every sandbox of the organisation and refuse new ones, until it is lifted',
    tag,
    guard: 'admin',
    body: KillSwitchChange,
    answers: ok(KillSwitch, 'The switch'),
    refuses: ['invalid_request'],
    answer: ({ organisation, caller, body }) =>
      organisation.firewall.setKillSwitch(body, caller.keyId),
  }),

  route({
    id: 'getDeploymentKillSwitch',
    method: 'get',
    path: '/v1/deployment/kill-switch',
    summary: 'Whether the kill switch of the whole deployment is on, and who has not heard yet',
    tag,
    guard: 'operator',
    answers: ok(DeploymentKillSwitch, 'The switch'),
    refuses: ['not_found'],
    answer: ({ deps }) => deps.organisation(deploymentId).deployment.killSwitch(),
  }),

  route({
    id: 'setDeploymentKillSwitch',
    method: 'post',
    path: '/v1/deployment/kill-switch',
    summary: 'Stop every sandbox of every organisation and refuse new ones, until it is lifted',
    tag,
    guard: 'operator',
    body: KillSwitchChange,
    answers: ok(DeploymentKillSwitch, 'The switch'),
    refuses: ['invalid_request', 'not_found'],
    async answer({ deps, body }) {
      const deployment = deps.organisation(deploymentId)
      await deployment.firewall.setKillSwitch(body, 'operator')
      return await deployment.deployment.killSwitch()
    },
  }),

  route({
    id: 'putDeploymentToSleep',
    method: 'post',
    path: '/v1/deployment/sleep',
    summary: 'Save every sandbox and put it to sleep, before the deployment is stopped',
    description:
      'Repeat it until nothing is left. New sandboxes wait for a minute after the last request.',
    tag,
    guard: 'operator',
    answers: ok(SandboxesLeft, 'What is still there'),
    refuses: ['not_found'],
    answer: async ({ deps }) => ({
      left: await deps.organisation(deploymentId).deployment.putToSleep(),
    }),
  }),
]
