import { expect, test } from 'vitest'
import {
  maxPayloadBytes,
  maxSkillBytes,
  type ResolvedSkill,
  type SkillSource,
} from '../../../../src/contract/skill.ts'
import { payloadOfSkills, type UploadedFile } from '../../../../src/core/registry/skills/payload.ts'

const resolved = (source: SkillSource, name = 'a') =>
  ({
    skillId: `skl_${name}`,
    name,
    scope: 'project',
    version: 1,
    source,
    sources: [],
  }) as unknown as ResolvedSkill
const given = (source: SkillSource, uploads: Record<string, UploadedFile> = {}) => {
  const { items } = payloadOfSkills(
    { skills: [resolved(source)], skipped: [] },
    new Map(Object.entries(uploads)),
  )
  return items[0]?.content ?? items[0]?.reason
}
const path = (path: string): SkillSource => ({ kind: 'path', path })
const file = (content: string): UploadedFile => ({ state: 'file', content })

test('[SKILL10] inline text is given, and a URL is never fetched', () => {
  expect(given({ kind: 'inline', content: 'Text.' })).toBe('Text.')
  expect(given({ kind: 'url', url: 'https://example.com/a' })).toBe('url_fetch_disabled')
})

test.each([
  ...['/etc/passwd', '~/SKILL.md', '../SKILL.md', 'a/../../b', 'a/..', '..', 'a//b', './a', 'a/'],
  ...['C:/a', 'a\\b', 'a\u0000b', 'a\nb', ''],
])(
  '[SKILL10] a path that could lead out of the workspace is unsafe, whatever was uploaded: %j',
  (at) => {
    expect(given(path(at), { [at]: file('Text.') })).toBe('path_unsafe')
  },
)

test('[SKILL10] a path gives what was uploaded from it, else why there is nothing', () => {
  const at = 'skills/a/SKILL.md'
  expect(given(path(at))).toBe('path_not_uploaded')
  expect(given(path(at), { other: file('Text.') })).toBe('path_not_uploaded')
  expect(given(path(at), { [at]: file('Text.') })).toBe('Text.')
  expect(given(path(at), { [at]: { state: 'missing' } })).toBe('path_missing')
  expect(given(path(at), { [at]: { state: 'not_file' } })).toBe('path_not_file')
  expect(given(path(at), { [at]: { state: 'oversized' } })).toBe('content_oversized')
  expect(given(path(at), { [at]: { state: 'outside' } })).toBe('path_unsafe')
  expect(given(path('..a/b..c'), { '..a/b..c': file('Text.') })).toBe('Text.')
})

test.each([
  ['---\nname: x\n---\nText.', 'Text.'],
  ['\uFEFF---\nname: x\n---\nText.', 'Text.'],
  ['---\n---\nText.', 'Text.'],
  ['Text.\n---\nname: x\n---\n', 'Text.\n---\nname: x\n---\n'],
  ['---\nname: x\nText.', '---\nname: x\nText.'],
])('[SKILL10] the front matter of a file is left out: %j', (content, text) => {
  expect(given(path('a'), { a: file(content) })).toBe(text)
})

test('[SKILL10] too much for one skill, in bytes, is left out whole', () => {
  const fits = 'ä'.repeat(maxSkillBytes / 2)
  expect(given(path('a'), { a: file(fits) })).toBe(fits)
  expect(given(path('a'), { a: file(`${fits}a`) })).toBe('content_oversized')
})

test('[SKILL10] too much together: what does not fit is left out, what fits behind it is given', () => {
  const long = 'x'.repeat(maxSkillBytes)
  const full = Array.from({ length: maxPayloadBytes / maxSkillBytes }, (_, n) =>
    resolved({ kind: 'inline', content: n === 0 ? long.slice(1) : long }, `a${n}`),
  )
  const last = ['xx', 'x', 'x'].map((content, n) => resolved({ kind: 'inline', content }, `b${n}`))
  const { items } = payloadOfSkills({ skills: [...full, ...last], skipped: [] }, new Map())
  expect(items.slice(-3).map(({ reason }) => reason)).toEqual([
    'payload_full',
    null,
    'payload_full',
  ])
  expect(items.map(({ order }) => order)).toEqual(items.map((_, index) => index))
  expect(items.slice(0, -3).every(({ content }) => content !== null)).toBe(true)
})
