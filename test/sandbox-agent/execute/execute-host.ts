import type { CommandBody } from '../../../src/contract/link.ts'
import { Executor } from '../../../sandbox-agent/execute/executor.ts'
import type { Site } from '../../../sandbox-agent/execute/run/site.ts'

/** An agent's process with nothing but its executor in it, so that it can be killed. */
const { site, folder, body } = JSON.parse(process.argv[2] ?? '') as {
  site: Site
  folder: string
  body: CommandBody<'execute'>
}
const executor = new Executor({
  folder,
  site: async () => site,
  probeSite: site,
  abilityFolder: () => Promise.reject(new Error('There are no abilities')),
  upload: async (path, content, contentType = 'text/plain') => ({
    path,
    size: content.length,
    sha256: '0'.repeat(64),
    contentType,
  }),
  maxReportBytes: 960 * 1024,
})
process.stdout.write(JSON.stringify(await executor.execute(body)))
