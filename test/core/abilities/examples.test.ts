import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readAbilityFolder } from '../../../src/core/registry/abilities/folder.ts'
import { sha256 } from '../../support/changes-kit.ts'

const root = join(import.meta.dirname, '../../../examples/abilities')
const names = readdirSync(root)

function filesOf(name: string) {
  const folder = join(root, name)
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name: file }) => join(parentPath, file))
    .map((path) => ({ path: relative(folder, path), content: readFileSync(path, 'utf8') }))
}

describe('the examples', () => {
  test('[ABX13] are five that teams use', () => {
    expect(names.toSorted()).toEqual([
      ...['incident-triage', 'onboard-repository', 'release', 'review-change'],
      'upgrade-dependencies',
    ])
  })

  test.each(names)(
    '[ABX13] %s can be stored as it is, and has every script that it runs',
    async (name) => {
      const files = filesOf(name)
      const folder = await readAbilityFolder(
        { files },
        { sha256: async (text) => sha256(String(text)) },
      )
      expect([folder.ability.name, folder.warnings]).toEqual([name, []])
      const scripts = folder.ability.steps.flatMap((step) =>
        step.type === 'script' ? (/^\.\/(\S+)/.exec(step.run)?.[1] ?? []) : [],
      )
      const paths = files.map(({ path }) => path)
      expect(scripts.filter((script) => !paths.includes(script))).toEqual([])
      const unused = paths.filter((path) => path !== 'ability.yaml' && !scripts.includes(path))
      expect(unused).toEqual([])
    },
  )
})
