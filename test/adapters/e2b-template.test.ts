import { Template } from 'e2b'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { root } from '../../local/binaries.ts'
import { remoteImage, remoteLayout } from '../../src/adapters/sandboxes/remote-layout.ts'
import { opencodeVersion } from '../../src/contract/version.ts'

const dockerfile = readFileSync(join(root, 'sandbox-agent', 'e2b', 'Dockerfile'), 'utf8')

describe('the E2B template', () => {
  test('[E2B17] E2B’s own reader understands every line', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    onTestFinished(() => warn.mockRestore())
    const template = Template({ fileContextPath: root }).fromDockerfile(dockerfile)
    expect(warn).not.toHaveBeenCalled()
    const { fromImage, steps } = JSON.parse(await Template.toJSON(template, false)) as {
      fromImage: string
      steps: { type: string; args: string[] }[]
    }
    expect(fromImage).toBe('debian:12')
    const copied = steps.filter(({ type }) => type === 'COPY').map(({ args }) => args[1])
    const { node, opencode, agent, scrub, path } = remoteImage
    expect(copied).toEqual([node, opencode, `${path[0]}/rg`, agent, scrub])
  })

  test('[E2B17] it has the user, the folders and the OpenCode that the control plane expects', () => {
    expect(dockerfile).toContain(`useradd --create-home --uid ${remoteImage.uid}`)
    expect(dockerfile).toContain(`= ${opencodeVersion} `)
    for (const path of [remoteLayout.configDir, remoteLayout.workspace, remoteImage.stateDir])
      expect(dockerfile).toMatch(new RegExp(`mkdir -p .*${path}( |$)`, 'm'))
  })
})
