import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Manifest } from '../../../src/contract/manifest.ts'
import { temporaryFolder } from '../support.ts'

/** Stands for OpenCode: whom it lets in, and which tools it says it has. */
export function opencodeDouble({
  isOpen = false,
  tools = ['marker', 'verify'],
  /** What its two streams say: of the workspace, and of every folder. */
  events = [] as object[],
  globalEvents = [] as object[],
} = {}): {
  root: string
  binary: string
  manifest: Manifest
} {
  const root = temporaryFolder()
  writeFileSync(
    join(root, 'opencode.mjs'),
    `import { createServer } from 'node:http'
    const server = createServer((request, response) => {
      if (!${isOpen} && !request.headers.authorization) return response.writeHead(401).end()
      const streams = { '/event': ${JSON.stringify(events)}, '/global/event': ${JSON.stringify(globalEvents)} }
      if (streams[request.url]) {
        response.writeHead(200).write(': hello\\n\\n')
        for (const event of streams[request.url]) response.write('data: ' + JSON.stringify(event) + '\\n\\n')
        return
      }
      const ids = request.url.startsWith('/experimental/tool/ids')
      response.end(ids ? ${JSON.stringify(JSON.stringify(tools))} : '{"version":"0"}')
    })
    server.listen(0, '127.0.0.1', () =>
      console.log('listening on http://127.0.0.1:' + server.address().port))`,
  )
  const binary = join(root, 'opencode')
  writeFileSync(binary, `#!/bin/sh\nexec '${process.execPath}' '${root}/opencode.mjs'\n`)
  chmodSync(binary, 0o755)
  const manifest: Manifest = {
    version: '0'.repeat(64),
    layout: {
      home: root,
      workspace: join(root, 'workspace'),
      configDir: join(root, 'config'),
      envFile: join(root, 'env.json'),
      hostname: '127.0.0.1',
      port: 0,
    },
    files: [],
    absent: [],
    environment: {},
    marker: 'marker',
    toolIds: ['verify'],
    model: 'a/b',
    trustProjectConfig: false,
  }
  return { root, binary, manifest }
}
