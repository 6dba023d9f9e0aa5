import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  applyWorkspaceManifest,
  type ApplyOptions,
} from '../../../sandbox-agent/workspace/workspace.ts'
import type { Manifest } from '../../../src/contract/manifest.ts'
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
  for (const folder of [layout.home, join(layout.workspace, '.git/info')])
    mkdirSync(folder, { recursive: true })
  const file = (path: string, content: string, keep: 'own' | 'copy') => ({
    path: join(root, path),
    content,
    sha256: createHash('sha256').update(content).digest('hex'),
    mode: 0o644,
    keep,
  })
  const manifest: Manifest = {
    version: '0'.repeat(64),
    layout,
    files: [
      file('config/opencode.json', '{}', 'own'),
      file('config/plugin/proliferate.mjs', 'plugin', 'own'),
      file('config/home/.keep', '', 'own'),
      file('home/.config/opencode/opencode.json', '{}', 'own'),
      file('workspace/opencode.json', 'copy', 'copy'),
      file('workspace/.opencode/tool/verify.ts', 'tool', 'copy'),
    ],
    absent: [],
    environment: {},
    marker: 'm',
    toolIds: [],
    model: 'a/b',
    trustProjectConfig: false,
  }
  const at = (path: string) => join(root, path)
  const read = (path: string) => readFileSync(at(path), 'utf8')
  const put = (path: string, content: string) => {
    mkdirSync(join(at(path), '..'), { recursive: true })
    writeFileSync(at(path), content)
  }
  let copies: string[] = []
  let first = true
  const apply = (change: Partial<ApplyOptions> = {}) => {
    const outcome = applyWorkspaceManifest(manifest, { owner: undefined, copies, first, ...change })
    copies = outcome.copies
    first = false
    const actions = Object.fromEntries(
      outcome.files.map((each) => [each.path.slice(root.length + 1), each.action]),
    )
    return { ...outcome, actions }
  }
  return { root, manifest, at, read, put, apply }
}

describe('a manifest', () => {
  it('is written with its modes, and kept as it is the second time', () => {
    const { apply, at, read } = sandbox()
    expect(new Set(Object.values(apply().actions))).toEqual(new Set(['written']))
    expect(read('config/plugin/proliferate.mjs')).toBe('plugin')
    expect(statSync(at('config/plugin/proliferate.mjs')).mode & 0o777).toBe(0o644)
    const second = apply()
    expect(new Set(Object.values(second.actions))).toEqual(new Set(['kept']))
    expect(second.drifted).toBe(false)
  })

  it('leaves no temporary file behind', () => {
    const { apply, root } = sandbox()
    apply()
    const names = readdirSync(root, { recursive: true }).map(String)
    expect(names.filter((name) => name.includes('.gantry-'))).toEqual([])
  })

  it('repairs what was changed and says so', () => {
    const { apply, put, read } = sandbox()
    apply()
    put('config/plugin/proliferate.mjs', 'something else')
    const outcome = apply()
    expect(outcome.actions['config/plugin/proliferate.mjs']).toBe('repaired')
    expect(outcome.drifted).toBe(true)
    expect(read('config/plugin/proliferate.mjs')).toBe('plugin')
  })

  it('removes whatever else OpenCode would load from its config folder, but not the caches of its home', () => {
    const { apply, put, at } = sandbox()
    apply()
    for (const path of [
      'plugins/evil.ts',
      'tool/evil.ts',
      'home/.opencode/plugin/evil.ts',
      'home/.cache/x',
      '.gitignore',
    ]) {
      put(`config/${path}`, 'x')
    }
    const { actions, drifted } = apply()
    expect(Object.entries(actions).filter(([, action]) => action === 'removed')).toEqual([
      ['config/home/.opencode', 'removed'],
      ['config/plugins', 'removed'],
      ['config/tool', 'removed'],
    ])
    expect(drifted).toBe(true)
    expect(existsSync(at('config/home/.cache/x'))).toBe(true)
    expect(existsSync(at('config/.gitignore'))).toBe(true)
  })

  it('[TOOL3] removes what must be absent if Gantry wrote it, and leaves what the repository has', () => {
    const { apply, put, at, manifest } = sandbox()
    const sha256 = createHash('sha256').update('ours').digest('hex')
    for (const [name, content] of [
      ['setup', 'ours'],
      ['own', 'the repository has it'],
    ] as const) {
      put(`workspace/.opencode/tool/${name}.ts`, content)
      manifest.absent.push({ path: at(`workspace/.opencode/tool/${name}.ts`), sha256 })
    }
    expect(apply().actions['workspace/.opencode/tool/setup.ts']).toBe('removed')
    expect(existsSync(at('workspace/.opencode/tool/setup.ts'))).toBe(false)
    expect(existsSync(at('workspace/.opencode/tool/own.ts'))).toBe(true)
  })

  it('refuses a path outside the folders of the sandbox', () => {
    const { apply, manifest, root } = sandbox()
    const [file] = manifest.files
    for (const path of ['/etc/gantry', `${root}/config/../x`, `${root}/config`]) {
      manifest.files = [{ ...(file as (typeof manifest.files)[number]), path }]
      expect(() => apply(), path).toThrow(/not inside the sandbox/)
    }
  })
})

describe("the copies in the repository's folder", () => {
  it('leave alone what the repository has', () => {
    const { apply, put, read } = sandbox()
    put('workspace/opencode.json', "the repository's")
    expect(apply().actions['workspace/opencode.json']).toBe('skipped')
    expect(read('workspace/opencode.json')).toBe("the repository's")
  })

  it('come back when deleted, unless the repository had its own', () => {
    const { apply, put, at } = sandbox()
    put('workspace/opencode.json', "the repository's")
    apply()
    rmSync(at('workspace/opencode.json'))
    rmSync(at('workspace/.opencode'), { recursive: true })
    const { actions } = apply()
    expect(actions['workspace/opencode.json']).toBe('skipped')
    expect(actions['workspace/.opencode/tool/verify.ts']).toBe('repaired')
  })

  it('are listed once in .git/info/exclude, after what was there', () => {
    const { apply, put, read } = sandbox()
    put('workspace/.git/info/exclude', '*.log')
    apply()
    apply()
    expect(read('workspace/.git/info/exclude')).toBe(
      '*.log\n# Written by Gantry\n/.opencode/tool/verify.ts\n/opencode.json\n',
    )
  })
})

describe('a hostile sandbox', () => {
  it('cannot lead a copy out of the workspace by a symlinked folder or file', () => {
    const { apply, at } = sandbox()
    mkdirSync(at('outside'))
    symlinkSync(at('outside'), at('workspace/.opencode'))
    symlinkSync(at('outside/opencode.json'), at('workspace/opencode.json'))
    const { actions } = apply()
    expect(actions['workspace/.opencode/tool/verify.ts']).toBe('skipped')
    expect(actions['workspace/opencode.json']).toBe('skipped')
    expect(readdirSync(at('outside'))).toEqual([])
  })

  it('cannot lead an own file elsewhere: the symlink is replaced', () => {
    const { apply, at, read } = sandbox()
    apply()
    mkdirSync(at('outside'))
    writeFileSync(at('outside/opencode.json'), 'precious')
    rmSync(at('home/.config'), { recursive: true })
    symlinkSync(at('outside'), at('home/.config'))
    rmSync(at('config/opencode.json'))
    symlinkSync(at('outside/opencode.json'), at('config/opencode.json'))
    const { actions } = apply()
    expect(actions['home/.config/opencode/opencode.json']).toBe('repaired')
    expect(actions['config/opencode.json']).toBe('repaired')
    expect(lstatSync(at('home/.config')).isDirectory()).toBe(true)
    expect(lstatSync(at('config/opencode.json')).isFile()).toBe(true)
    expect(read('outside/opencode.json')).toBe('precious')
    expect(readdirSync(at('outside'))).toEqual(['opencode.json'])
  })

  it('cannot hide the exclude list behind a symlinked .git', () => {
    const { apply, at } = sandbox()
    mkdirSync(at('outside/info'), { recursive: true })
    rmSync(at('workspace/.git'), { recursive: true })
    symlinkSync(at('outside'), at('workspace/.git'))
    apply()
    expect(readdirSync(at('outside/info'))).toEqual([])
  })

  it('cannot block an own file by a folder of its name', () => {
    const { apply, at, read } = sandbox()
    mkdirSync(at('config/opencode.json/deep'), { recursive: true })
    apply()
    expect(read('config/opencode.json')).toBe('{}')
  })
})
