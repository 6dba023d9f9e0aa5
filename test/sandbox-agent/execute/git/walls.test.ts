import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { chooseEnclosures } from '../../../../sandbox-agent/enclosure/enclosure.ts'
import { Reader } from '../../../../sandbox-agent/enclosure/reader.ts'
import { onLinux } from '../../../support/needs.ts'
import { makeRepository, newAttempt } from '../execute-kit.ts'

onLinux(
  '[WALL15] [EXEC6] [EXEC9] git of edits and merges runs behind walls: without network, whatever it is made to start',
  async () => {
    const { root, site, git, executor, perform } = makeRepository()
    for (const name of ['agent', 'config', 'tmp']) execFileSync('mkdir', ['-p', join(root, name)])
    const [walls] = chooseEnclosures({
      boot: { stateDir: join(root, 'agent'), opencode: process.execPath },
      manifest: {
        layout: {
          ...{ home: site.home, workspace: site.workspace, configDir: join(root, 'config') },
          ...{ envFile: join(root, 'tmp/env.json'), hostname: '127.0.0.1', port: 0 },
        },
      },
      owner: site.owner,
      path: site.path.split(':'),
      marks: site.marks,
      serve: { relay: () => undefined, proxy: () => undefined, socks: () => undefined },
    })
    const reader = new Reader(async () => {
      const held = walls!.hold()
      await held.entered
      return held
    })
    onTestFinished(() => reader.close())
    const programs = new Set<string>()
    site.run = (program, ...rest) => {
      programs.add(program)
      return reader.run(program, ...rest)
    }
    const attemptId = newAttempt()
    const report = await perform('write-file', { targetPath: 'n.txt', content: 'n\n' }, attemptId)
    expect(report).toMatchObject({ status: 'succeeded', branch: `gantry/${attemptId}` })
    expect(git('show', `gantry/${attemptId}:n.txt`)).toBe('n')
    expect(await executor.merge({ attemptId, branch: `gantry/${attemptId}` })).toMatchObject({
      merged: true,
    })
    expect(git('status', '--porcelain')).toBe('')
    expect([...programs]).toEqual(expect.arrayContaining(['git', 'mkdir', 'rm']))
    const looked = await reader.run('sh', ['-c', 'wc -l </proc/net/route; id -u'], {
      ...{ environment: { PATH: '/usr/bin:/bin' }, maxBytes: 100, timeoutMs: 5000 },
    })
    expect(looked.output.toString()).toBe(`1\n${site.owner?.uid ?? process.getuid?.()}\n`)
  },
)
