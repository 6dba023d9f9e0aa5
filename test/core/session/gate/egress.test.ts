import { expect, test } from 'vitest'
import { egressTool } from '../../../../src/contract/ask.ts'
import { registryHosts } from '../../../../src/core/policy/registries.ts'
import { policyOf, RunWorld } from '../../../support/run-world.ts'

const usual = Object.values(registryHosts).flat()

async function world(policy: Parameters<RunWorld['begin']>[1] = null) {
  const begun = await new RunWorld().begin(
    { repository: { url: 'https://git.example.com/a/b.git' } },
    policy,
  )
  await begun.prompt()
  return async (host: unknown, tool: string = egressTool, port = 443) =>
    begun.answerTo(await begun.ask(tool, { host, port, url: `https://${String(host)}/` })) ?? 'ask'
}

test('[WALL14] the hosts of package managers and of the repository are allowed; every other host asks', async () => {
  const answer = await world()
  for (const host of [...usual, 'git.example.com']) expect(await answer(host), host).toBe('allow')
  for (const host of ['example.com', `x.${usual[0]}`, `${usual[0]}.example.com`, '', 7])
    expect(await answer(host), String(host)).toBe('ask')
})

test('[WALL14] that holds for the proxy alone, and a rule of the policy comes first', async () => {
  expect(await (await world())(usual[0], 'webfetch')).toBe('ask')
  const match = { category: 'network' as const }
  const denies = await world(policyOf({ rules: [{ match, decision: 'deny' }] }))
  expect(await denies(usual[0])).toBe('deny')
  const asks = await world(policyOf({ rules: [{ match, decision: 'ask' }] }))
  expect(await asks(usual[0])).toBe('ask')
  const allows = await world(policyOf({ rules: [{ match, decision: 'allow' }] }))
  expect(await allows('example.com')).toBe('allow')
})

test('[WALL14] only where packages and repositories are served: what else listens there asks', async () => {
  const answer = await world()
  const at = (host: string, port: number) => answer(host, egressTool, port)
  for (const port of [80, 443]) expect(await at(usual[0] ?? '', port), `${port}`).toBe('allow')
  for (const port of [22, 25, 8080, 6379])
    expect(await at(usual[0] ?? '', port), `${port}`).toBe('ask')
  for (const port of [22, 80, 443, 9418])
    expect(await at('git.example.com', port), `${port}`).toBe('allow')
  for (const port of [25, 8443, 5432])
    expect(await at('git.example.com', port), `${port}`).toBe('ask')
})
