import * as schemas from '../../contract/settings.ts'
import { Settings } from '../../contract/settings.ts'
import { loadSettings, saveSettings } from '../../core/registry/settings.ts'
import { ok, route } from '../kit/route.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'members'

export const settingsRoutes = [
  route({
    id: 'getSettings',
    method: 'get',
    path: '/v1/settings',
    summary: 'The settings of the organisation',
    tag,
    guard: 'read',
    answers: ok(Settings, 'The settings'),
    refuses: [],
    answer: ({ deps, caller }) => loadSettings(deps.db(), caller.organisationId),
  }),

  route({
    id: 'putSettings',
    method: 'put',
    path: '/v1/settings',
    summary: 'Replace the settings of the organisation; everywhere within 30 seconds',
    tag,
    guard: 'admin',
    body: Settings,
    answers: ok(Settings, 'The settings'),
    refuses: ['invalid_request'],
    async answer({ deps, guards, caller, body }) {
      const { organisationId } = caller
      const order = { organisationId, settings: body, maker: caller }
      const saved = await saveSettings(deps.db(), deps.crypto, deps.now(), order)
      guards.forgetOrganisation(organisationId)
      return saved
    },
  }),
]
