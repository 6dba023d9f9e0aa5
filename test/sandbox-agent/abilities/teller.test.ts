import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { AbilityTeller } from '../../../sandbox-agent/abilities/teller.ts'
import { readWorkspaceAbility } from '../../../sandbox-agent/abilities/workspace-abilities.ts'
import { serve, temporaryFolder } from '../support.ts'

const yaml = 'name: own\ndescription: d\nsteps:\n  - id: a\n    run: true\n'

async function setUp(fails = 0) {
  const workspace = temporaryFolder()
  const below = join(workspace, '.opencode/abilities/own')
  let left = fails
  const { url, received } = await serve((_, response) => {
    response.statusCode = left-- > 0 ? 503 : 200
    response.end('{}')
  })
  const teller = new AbilityTeller({
    workspace: () => workspace,
    to: (hash) => ({
      ...{ url: `${url}/abilities${hash === null ? '' : `/${hash}`}`, token: () => 't' },
      ...{ maxTries: 2, firstBackoffMs: 1 },
    }),
  })
  const put = (name: string, content: string) => {
    mkdirSync(below, { recursive: true })
    writeFileSync(join(below, name), content)
  }
  return { workspace, teller, received, put }
}

describe('what the session is told', () => {
  it('[ABX5] nothing while there is nothing, then each change once', async () => {
    const { teller, received, put } = await setUp()
    await teller.tell()
    expect(received).toEqual([])
    put('ability.yaml', yaml)
    await Promise.all([teller.tell(), teller.tell()])
    expect(received).toHaveLength(1)
    expect(received[0]).toMatchObject({ method: 'PUT', path: '/abilities' })
    expect(JSON.parse(received[0]?.body ?? '')).toMatchObject({ found: [{ path: 'own' }] })
    put('run.sh', 'echo')
    await teller.tell()
    expect(received).toHaveLength(2)
  })

  it('[ABX5] what could not be told is told the next time, and breaks nothing', async () => {
    const { teller, received, put } = await setUp(2)
    put('ability.yaml', yaml)
    await teller.tell()
    expect(received).toHaveLength(2)
    await teller.tell()
    expect(received).toHaveLength(3)
    await teller.tell()
    expect(received).toHaveLength(3)
  })

  it('[ABX8] a folder is sent as it was looked at, or not at all', async () => {
    const { workspace, teller, received, put } = await setUp()
    put('ability.yaml', yaml)
    put('run.sh', 'echo')
    const { hash = '' } = readWorkspaceAbility(workspace, 'own') ?? {}
    await teller.send('own', hash)
    expect(received[0]?.path).toBe(`/abilities/${hash}`)
    expect(JSON.parse(received[0]?.body ?? '').files).toHaveLength(2)
    put('run.sh', 'echo other')
    await expect(teller.send('own', hash)).rejects.toThrow('it has changed or is gone')
    await teller.tell()
    expect(received.map(({ path }) => path)).toEqual([`/abilities/${hash}`, '/abilities'])
  })
})
