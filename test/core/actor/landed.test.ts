import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { root } from '../../../local/binaries.ts'
import { loadMigrations, splitMigration } from '../../../local/database/migrations.ts'
import { breakingSuffix } from '../../../src/contract/version.ts'
import { wakeLadder } from '../../../src/hosts/deno/wake-index.ts'
import { ledgerLadder } from '../../../src/core/ledger/rungs/ladder.ts'
import type { Rung } from '../../../src/core/actor/ladder.ts'
import { evalRunLadder } from '../../../src/core/eval-run/rungs/ladder.ts'
import { organisationLadder } from '../../../src/core/organisation/rungs/ladder.ts'
import { sessionLadder } from '../../../src/core/session/rungs/ladder.ts'

// What has landed is in databases that nobody can reach to mend them: it is never edited, only added to. If a line here
// turns red, put the text back and append a rung (or a migration file) with the change, and its hash at the end of the list.

const landed = {
  session: [
    '6be7008fec2767d7',
    'a7a0f0673ea3f917',
    'af39bdd74565cda0',
    '518b7cdac5d06fa1',
    'd4516a78a146c0bf',
    '2f7bc181f6a89ba2',
    '95d7fde292c42746',
    '96de9fb393c836d9',
    '1ac8426515cc601a',
    '4ea6e24c973906a0',
    '6d3dd76c6f417820',
    '396e1d8f89e0f0de',
    'a80fb5c126217016',
    'f9800ee4c6f78de5',
    '008097b1d1f20049',
    'f49badc67ddd8d98',
    '8dfcef4a1495d810',
    '821f219ecf2d2f36',
    '257ed74154c11dcf',
    '9430b41ec092c7de',
    '38f2a589bbb7da87',
    '8280418b81d4c659',
    'b48299d25e24f2a8',
    'd171c69d343d8afb',
    'e9e7ec1dc49c2856',
    '8de916fab1ed6b61',
    '2436a917b69370b1',
    '2030a51da6d84999',
    'b2f0d4dc53b18ab7',
    '2f77553418444cd2',
    '458a81015ef85ebd',
    '97ef6193c02710e7',
    '166f0e5f4a0288db',
    'c4f0cc4c52098d0a',
  ],
  organisation: [
    'afba0e2bea701f87',
    'ee2c6a2c7017f704',
    '39abbb4c6d6d10b8',
    '03934cea2c0d65b5',
    '124e9e02d2ea9d40',
    '2f7bc181f6a89ba2',
    '80a4ec09c2635ffc',
    'a80fb5c126217016',
    '97a4930ebb4ea7da',
  ],
  ledger: ['0e9dc42433ae1cd0', '886718665c8d2d7f'],
  wakes: ['10de1c61188f571a'],
  evalRun: ['090e339f3b91fbfd', 'b9efcd1aac1c239a', 'af0e2cb4cc6f4fea'],
}
const ladders: Record<keyof typeof landed, readonly Rung[]> = {
  session: sessionLadder,
  organisation: organisationLadder,
  ledger: ledgerLadder,
  wakes: wakeLadder,
  evalRun: evalRunLadder,
}
const landedMigrations = {
  '0001_spine.sql': 'd5ceba2562941d80',
  '0002_contract.sql': '59010aa2595a8043',
  '0003_policies.sql': 'f49ff0a508428168',
  '0004_sandboxes.sql': '86e11371ec29f027',
  '0005_runs.sql': '36d37b8366e78cee',
  '0006_providers.sql': 'a6c3a3fd0cc2e5e3',
  '0007_content_claims.sql': 'f68d4f93d73ba1ef',
  '0008_policy_extends.sql': '1003414e5ebe5596',
  '0009_approval_details.sql': '3928280b55107dd3',
  '0010_members.sql': '4273c8f129bb3735',
  '0011_phases.sql': '340d40b2854d6498',
  '0012_skills.sql': '088209a2f6573954',
  '0013_abilities.sql': 'd5768ff547e10f0b',
  '0014_agents.sql': '1233e461d322e376',
  '0015_profiles.sql': 'e722af0cc4fbb19f',
  '0016_task_change_events.sql': '2c306220495a9c8f',
  '0017_memories.sql': '8ad7d56be8a9b192',
  '0018_skill_usage.sql': '52912a61711453fc',
  '0019_memory_places.sql': '5de54b6de5e44b19',
  '0020_injected_secrets.sql': 'd4308750daae9efd',
  '0021_evals.sql': '0940eb01c331e90d',
  '0022_promotions.sql': '66fbb7501639294f',
}

const shortHash = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16)

describe.each(Object.entries(landed))('the ladder of the %s', (name, hashes) => {
  test('[REL1] a rung that has landed is never edited, and a new one is added here', () => {
    const rungs = ladders[name as keyof typeof landed]
    expect(rungs.map((rung) => shortHash(JSON.stringify(rung)))).toEqual(hashes)
  })
})

test.each(['session', 'organisation', 'ledger'] as const)(
  '[REL1] every file of a rung is on the ladder of the %s, by its number',
  async (name) => {
    const folder = join(root, 'src/core', name, 'rungs')
    const numbers = readdirSync(folder).flatMap((file) => /^(\d{4})\.ts$/.exec(file)?.[1] ?? [])
    const modules = numbers.toSorted().map((number) => import(join(folder, `${number}.ts`)))
    const rungs = (await Promise.all(modules)) as { rung: Rung }[]
    expect(ladders[name]).toEqual(rungs.map(({ rung }) => rung))
  },
)

test('[REL1] a migration that has landed is never edited, and a new one is added here', () => {
  const found = loadMigrations(join(root, 'migrations'))
  expect(Object.fromEntries(found.map(({ name, sql }) => [name, shortHash(sql)]))).toEqual(
    landedMigrations,
  )
})

/** How many rungs and migrations release 0.1.0 has, and the first of what it did not have: it lives with all that came after. */
const in010 = { session: 7, organisation: 6, ledger: 1, wakes: 1, evalRun: 1, migrations: 6 }

describe('[REL3] whatever is not marked only adds', () => {
  test.each(Object.keys(ladders) as (keyof typeof ladders)[])('the ladder of the %s', (name) => {
    const plain = ladders[name].slice(in010[name]).flatMap((rung) => ('breaks' in rung ? [] : rung))
    expect(plain.filter((text) => !isAdditive(text, plain))).toEqual([])
  })

  test('migrations', () => {
    const texts = loadMigrations(join(root, 'migrations'))
      .slice(in010.migrations)
      .filter(({ name }) => !name.endsWith(breakingSuffix))
      .flatMap(({ sql }) => splitMigration(sql))
    expect(texts.filter((text) => !isAdditive(text, texts))).toEqual([])
  })

  test.each([
    'drop table turns',
    'alter table turns rename column text to said',
    'alter table turns add column x text not null',
    `update turns set state = 'done'`,
    'create unique index u on turns (text)',
    'delete from turns',
  ])('%s does not', (text) => expect(isAdditive(text, [text])).toBe(false))
})

/** Old code, which knows nothing of it, reads and writes as before. */
function isAdditive(text: string, all: readonly string[]): boolean {
  const madeHere = (table: string | undefined) =>
    all.some((other) => new RegExp(`^\\s*create table ${table}\\b`, 'i').test(other))
  if (/^\s*create (table|virtual table|index|trigger) /i.test(text)) return true
  if (/^\s*alter table \w+ add column /i.test(text))
    return !/\bnot null\b/i.test(text) || /\bdefault\b/i.test(text)
  const written =
    /^\s*(?:create unique index \w+ on|insert(?: or \w+)? into|update|delete from) (\w+)/i.exec(
      text,
    )
  return written !== null && madeHere(written[1])
}
