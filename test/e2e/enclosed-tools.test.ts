import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { asRoot } from '../support/needs.ts'
import { anythingGoes, bash, environOf, until, useBox, useRealStack, write } from './support.ts'

const exec = promisify(execFile)
const stack = useRealStack('workerd')
const box = useBox(stack, () => anythingGoes(stack()))

/** OpenCode's own server, which only the agent and the host's root can reach. */
async function askOpenCode(method: string, path: string, body?: object, more: string[] = []) {
  const pid = await box().opencodePid()
  const password = /(?:^|\0)OPENCODE_SERVER_PASSWORD=([^\0]*)/.exec(environOf(pid))?.[1]
  const args = ['--target', String(pid), '--net', 'curl', '-s', '-m', '20', '-X', method]
  const sent = body ? ['-H', 'content-type: application/json', '-d', JSON.stringify(body)] : []
  const url = `http://127.0.0.1:4096${path}`
  const line = [...args, ...sent, ...more, '-u', `opencode:${password}`, url]
  const { stdout } = await exec('nsenter', line).catch((error: { stdout: string }) => error)
  return stdout
}
const inWorkspace = (name: string) => box().folder(`workspace/${name}`)

asRoot(
  "[WALL1] OpenCode's own services work inside: terminals, searches, its watcher, snapshots and their restore, worktrees",
  async () => {
    expect((await box().view()).sandbox.enclosure?.level).toBe('full')
    await box().run([
      bash(
        'git init -q . 2>/dev/null; git add -A; git -c user.name=a -c user.email=a@b commit -qm base --allow-empty',
      ),
    ])

    const terminal = JSON.parse(
      await askOpenCode('POST', '/pty', {
        command: '/bin/bash',
        args: ['-c', 'tty > terminal.txt; sleep 1'],
      }),
    ) as { id: string }
    expect(terminal.id).toMatch(/^pty_/)
    await until(
      'the terminal has said its name',
      10_000,
      () =>
        existsSync(inWorkspace('terminal.txt')) &&
        readFileSync(inWorkspace('terminal.txt'), 'utf8').includes('pts'),
    )

    const watched = askOpenCode('GET', '/event', undefined, ['-N', '-m', '8'])
    const turn = await box().run([write('found.txt', 'a needle in it\n')])
    expect(turn.state).toBe('completed')
    expect(await askOpenCode('GET', '/find?pattern=needle')).toContain('found.txt')
    expect(await askOpenCode('GET', '/find/file?query=found')).toContain('found.txt')
    expect(await watched).toContain('file.watcher.updated')

    const sessions = JSON.parse(await askOpenCode('GET', '/session')) as { id: string }[]
    const id = sessions[0]?.id ?? ''
    const messages = JSON.parse(await askOpenCode('GET', `/session/${id}/message`)) as {
      info: { id: string; role: string }
    }[]
    const asked = messages.filter(({ info }) => info.role === 'user').at(-1)
    await askOpenCode('POST', `/session/${id}/revert`, { messageID: asked?.info.id })
    await until('the file is gone again', 10_000, () => !existsSync(inWorkspace('found.txt')))
    await askOpenCode('POST', `/session/${id}/unrevert`)
    await until('the file is back', 10_000, () => existsSync(inWorkspace('found.txt')))

    const tree = await askOpenCode('POST', '/experimental/worktree', { name: 'second' })
    expect(JSON.parse(tree)).toMatchObject({ name: expect.stringContaining('second') })
  },
  180_000,
)
