import type { CommandBody } from '../../src/contract/link.ts'
import { Executor } from '../../sandbox-agent/execute/executor.ts'
import type { Place } from '../../sandbox-agent/execute/place.ts'

/** An agent's process with nothing but its executor in it, so that it can be killed. */
const { place, folder, body } = JSON.parse(process.argv[2] ?? '') as {
  place: Place
  folder: string
  body: CommandBody<'execute'>
}
const executor = new Executor({
  folder,
  place: async () => place,
  probePlace: place,
  upload: async (path, content, contentType = 'text/plain') => ({
    path,
    size: content.length,
    sha256: '0'.repeat(64),
    contentType,
  }),
  maxReportBytes: 960 * 1024,
})
process.stdout.write(JSON.stringify(await executor.execute(body)))
