import { describe, expect, test } from 'vitest'
import { decideCommand, decideTool } from '../requests.ts'

describe('[POL9] what cannot be told is ambiguous', () => {
  test.each([
    `env --split-string='rm -rf a'`,
    `env -S 'rm -rf a'`,
    `fish -c 'ls'`,
    `pwsh -c 'ls'`,
    `TAR_OPTIONS='--checkpoint-action=exec=sh' tar cf a b`,
  ])('%s', (command) => {
    const decided = decideCommand(command)
    expect([decided.decision, decided.reason]).toEqual([
      'ask',
      expect.stringContaining('ambiguous'),
    ])
  })
})

describe('[POL11] what is wrapped is what it wraps', () => {
  test.each([
    'command rm -rf a',
    'timeout 5 rm -rf a',
    'nice -n 5 rm -rf a',
    `bash -xc 'rm -rf a'`,
    'eval "rm -rf a"',
    'git tag --delete x',
    'git push origin --delete x',
  ])('%s is destructive', (command) => {
    const decided = decideCommand(command)
    expect([decided.decision, decided.reason]).toEqual([
      'ask',
      expect.stringContaining('destructive'),
    ])
  })

  test.each(['bash cat', 'nice -n 5 ls', 'timeout 5 ls', 'command ls', 'tar cf a b'])(
    '%s is none of it',
    (command) => {
      expect(decideCommand(command).decision).toBe('allow')
    },
  )
})

test('[POL36] what would take the parser too long is not read', () => {
  expect(decideCommand(`echo '${'['.repeat(100)}'`).decision).toBe('allow')
  expect(decideCommand(`echo '${'['.repeat(400)}'`).reason).toContain('ambiguous')
  const documents = (count: number) => 'cat <<A <<A <<A\nA\nA\nA\n'.repeat(count)
  expect(decideCommand(documents(50)).decision).toBe('allow')
  expect(decideCommand(documents(150)).reason).toContain('It cannot be told what a shell makes of')
})

test('[POL13] secrets by another way are secrets', () => {
  for (const command of [
    'aws configure get aws_secret_access_key',
    'cat ~/.claude/.credentials.json',
    'cat ~root/x',
  ])
    expect([command, decideCommand(command).decision]).toEqual([command, 'deny'])
  expect(decideTool('read', { filePath: '.credentials.json' }).decision).toBe('deny')
})
