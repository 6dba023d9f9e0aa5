import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { applyEnvFiles } from '../../../sandbox-agent/workspace/env-files.ts'
import { temporaryFolder } from '../support.ts'

function sandbox() {
  const root = temporaryFolder()
  const layout = {
    home: join(root, 'home'),
    workspace: join(root, 'workspace'),
    configDir: join(root, 'config'),
    envFile: join(root, 'tmp/env.json'),
    hostname: '127.0.0.1',
    port: 0,
  }
  for (const path of [layout.workspace, join(root, 'tmp')]) mkdirSync(path)
  const apply = (values: Record<string, string>, files: { path: string; content: string }[] = []) =>
    applyEnvFiles({ values, files }, layout, undefined)
  const merged = () => JSON.parse(readFileSync(layout.envFile, 'utf8')) as unknown
  return { layout, apply, merged, at: (path: string) => join(layout.workspace, path) }
}

describe('env values in the sandbox', () => {
  it('[TOOL8] are merged: earlier keys stay', () => {
    const { layout, apply, merged } = sandbox()
    apply({ A: '1', B: '1' })
    apply({ B: '2' })
    expect(merged()).toEqual({ A: '1', B: '2' })
    expect(statSync(layout.envFile).mode & 0o777).toBe(0o600)
  })

  it('[TOOL9] are written into the files of the configuration, for their owner alone', () => {
    const { apply, at } = sandbox()
    expect(apply({ A: '1' }, [{ path: 'apps/web/.env', content: 'A=1\n' }])).toEqual([
      at('apps/web/.env'),
    ])
    expect(readFileSync(at('apps/web/.env'), 'utf8')).toBe('A=1\n')
    expect(statSync(at('apps/web/.env')).mode & 0o777).toBe(0o600)
  })

  it('leave alone what stands in the way: a file for a folder, a folder for a file', () => {
    const { apply, at } = sandbox()
    writeFileSync(at('apps'), 'a file')
    mkdirSync(at('.env'))
    const files = ['apps/.env', '.env', '.env.local'].map((path) => ({ path, content: 'A=1\n' }))
    expect(apply({}, files)).toEqual([at('.env.local')])
  })
})
