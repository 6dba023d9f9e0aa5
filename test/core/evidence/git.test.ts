// Bundles from a real git history: what is proven is what git says, also after one place of the bundle was changed.

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { canonicalJson } from '../../../src/contract/canonical.ts'
import {
  EvidenceBundle,
  type EvidenceFile,
  type EvidencePart,
  evidenceRecordText,
  type EvidenceSide,
} from '../../../src/contract/evidence.ts'
import type { ProofDelivery } from '../../../src/core/evidence/candidate.ts'
import { fixtureBundle, fixtureDelivery } from '../../../src/core/evidence/dry-run/fixture.ts'
import { proveChanges } from '../../../src/core/evidence/prove.ts'
import { exactDigest } from '../../../src/core/evidence/texts/exact.ts'
import { hashText } from '../../../src/core/hash.ts'
import { fixture } from '../../support/proof-fixtures.ts'
import { random as seeded, seedsOf } from '../../support/random.ts'

let root = ''
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'gantry-proof-'))
  git('init', '-q')
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

const git = (...args: string[]): string =>
  execFileSync('git', ['-C', root, '-c', 'core.autocrlf=false', ...args], { encoding: 'utf8' })
const writeTree = (): string => {
  git('add', '-A')
  return git('write-tree').trim()
}
const shown = new Map<string, string | null>()
function show(tree: string, path: string): string | null {
  const key = `${tree}:${path}`
  const known = shown.get(key)
  if (known !== undefined) return known
  const listed = git('ls-tree', '-z', tree, path)
  const text = listed === '' ? null : git('cat-file', 'blob', key)
  shown.set(key, text)
  return text
}
const sideOf = (text: string | null): EvidenceSide =>
  text === null
    ? { state: 'absent' }
    : { state: 'text', text, ...exactDigest(text), mode: '100644' }

interface Story {
  bundle: EvidenceBundle
  delivery: ProofDelivery
  trees: Map<string, [from: string, to: string]>
}

/** Random writes, edits and patches of a few files, each carried out on the disk and committed as a tree. */
function tell(random: () => number): Story {
  const base = fixtureBundle(fixture())
  const story: Story = {
    bundle: { ...base, parts: [], windows: [], files: [], reads: [] },
    delivery: fixtureDelivery(fixture()),
    trees: new Map(),
  }
  const texts = new Map<string, string>()
  for (let at = 0; at < 10; at += 1) step(story, texts, at, random)
  const seenParts = story.bundle.parts.map((part) => ({
    ...{ id: part.id, messageId: part.messageId, sessionId: part.sessionId },
    ...{ tool: part.tool, callId: part.callId, end: 'completed' as const },
    inputHash: hashText(canonicalJson(part.input)),
    recordHash: hashText(evidenceRecordText(part)),
  }))
  return { ...story, delivery: { ...story.delivery, seenParts } }
}

function step(
  { bundle, trees }: Story,
  texts: Map<string, string>,
  at: number,
  random: () => number,
) {
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T
  const path = pick(['a.txt', 'src/b.txt', 'ü c.txt'])
  const from = writeTree()
  const old = texts.get(path) ?? null
  const act = actOn(path, old, pick)
  const order = at * 10
  if (act.text === null) rmSync(join(root, path))
  else {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), act.text)
  }
  if (act.text === null) texts.delete(path)
  else texts.set(path, act.text)
  const to = writeTree()
  const window = { id: `w${at}`, messageId: 'message-1', from, to }
  const changed = git('diff', '--no-renames', '--name-only', '-z', from, to)
    .split('\0')
    .filter(Boolean)
  bundle.windows.push({ ...window, startOrder: order, finishOrder: order + 9, changed })
  bundle.parts.push({
    ...partOf(at, order + 1, path, { ...act, existed: old !== null }),
    messageId: 'message-1',
    sessionId: 'session-1',
  })
  const file: EvidenceFile = {
    windowId: window.id,
    from,
    to,
    path,
    before: sideOf(show(from, path)),
    after: sideOf(show(to, path)),
  }
  bundle.files.push(file)
  bundle.reads.push({ windowId: window.id, elapsedMs: 1, timedOut: false, bytes: 1 })
  trees.set(window.id, [from, to])
}

interface Done {
  tool: string
  input: Record<string, unknown>
  type: string
  text: string | null
}
function actOn(path: string, old: string | null, pick: <T>(of: readonly T[]) => T): Done {
  const lines = (old ?? '').split('\n').slice(0, -1)
  const content = Array.from(
    { length: pick([0, 1, 3, 6]) },
    () => `${pick(['x', 'y', 'ä', '$&'])}${pick([1, 2, 3, 4, 5, 6, 7])}\n`,
  ).join('')
  const line = lines.length > 0 ? pick(lines) : null
  const kind = line === null || line === '' ? 'write' : pick(['write', 'edit', 'update', 'delete'])
  if (kind === 'edit' && line !== null) {
    const input = {
      filePath: join('/workspace', path),
      oldString: line,
      newString: pick(['$$', 'new', '']),
    }
    const at = (old ?? '').indexOf(line)
    const text = (old ?? '').slice(0, at) + input.newString + (old ?? '').slice(at + line.length)
    return { tool: 'edit', input, type: 'update', text }
  }
  const patch = (...body: string[]) => ({
    patchText: ['*** Begin Patch', ...body, '*** End Patch'].join('\n'),
  })
  if (kind === 'update' && line !== null) {
    const at = lines.indexOf(line)
    const text = lines
      .with(at, 'patched')
      .map((it) => `${it}\n`)
      .join('')
    return {
      tool: 'apply_patch',
      input: patch(`*** Update File: ${path}`, '@@', `-${line}`, '+patched'),
      type: 'update',
      text,
    }
  }
  if (kind === 'delete')
    return {
      tool: 'apply_patch',
      input: patch(`*** Delete File: ${path}`),
      type: 'delete',
      text: null,
    }
  return {
    tool: 'write',
    input: { filePath: join('/workspace', path), content },
    type: 'add',
    text: content,
  }
}

function partOf(
  at: number,
  order: number,
  path: string,
  { tool, input, type, existed }: Done & { existed: boolean },
) {
  const files = tool === 'apply_patch' ? [{ filePath: join('/workspace', path), type }] : null
  const times = { startedAt: at, endedAt: at }
  const rest = { status: 'completed', inputTruncated: false, ...times } as const
  const metadata = { exists: tool === 'write' ? existed : null, truncated: null, files }
  return { ...rest, id: `p${at}`, callId: `c${at}`, order, tool, input, metadata } as EvidencePart
}

function contradictions({ bundle, trees, delivery }: Story): string[] {
  const { changes, decisions } = proveChanges({ bundle, delivery, mode: 'full' })
  return changes.flatMap(({ event, beforeContent, afterContent }, at) => {
    if (event.evidenceProof === 'metadata-only-fallback') return []
    const [from, to] = trees.get(decisions[at]?.windowId ?? '') ?? ['', '']
    const isSame =
      show(from, event.relativePath) === beforeContent &&
      show(to, event.relativePath) === afterContent
    return isSame ? [] : [`${event.relativePath} ${event.evidenceProof}`]
  })
}

/** One value somewhere in the bundle becomes another of its kind. */
function changeOnePlace(value: unknown, random: () => number): unknown {
  if (typeof value === 'string') {
    const at = Math.floor(random() * (value.length + 1))
    return random() < 0.5
      ? value.slice(0, at) + 'x' + value.slice(at)
      : value.slice(0, at) + value.slice(at + 1)
  }
  if (typeof value === 'number') return value + (random() < 0.5 ? 1 : 9)
  if (typeof value === 'boolean') return !value
  if (value === null || typeof value !== 'object') return 'x'
  const keys = Object.keys(value)
  const key = keys[Math.floor(random() * keys.length)]
  if (key === undefined) return value
  if (!Array.isArray(value))
    return { ...value, [key]: changeOnePlace((value as Record<string, unknown>)[key], random) }
  if (random() < 0.1) return value.filter((_, at) => String(at) !== key)
  if (random() < 0.1) return [...(value as unknown[]), value[Number(key)]]
  if (random() < 0.1) return (value as unknown[]).toReversed()
  return value.map((each: unknown, at) =>
    String(at) === key ? changeOnePlace(each, random) : each,
  )
}

test.each(seedsOf(1, 12))(
  '[EVD19] whatever is proven is what git says, also after one place of a bundle has changed (seed %i)',
  (seed) => {
    const random = seeded(seed)
    const story = tell(random)
    expect(contradictions(story)).toEqual([])
    expect(proveChanges({ ...story, mode: 'full' }).statistics.upgradedChanges).toBeGreaterThan(1)
    let tried = 0
    for (let at = 0; at < 150; at += 1) {
      // What the schema refuses never reaches the engine.
      const bundle = EvidenceBundle.safeParse(changeOnePlace(story.bundle, random)).data
      if (!bundle) continue
      tried += 1
      expect([at, contradictions({ ...story, bundle })]).toEqual([at, []])
    }
    expect(tried).toBeGreaterThan(30)
  },
)
