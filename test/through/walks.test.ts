import { Session } from 'node:inspector/promises'
import { fileURLToPath } from 'node:url'
import { join, relative } from 'node:path'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { useHost } from '../support/host.ts'
import { walks } from '../support/walks.ts'

const host = useHost()

/** The functions of `src` that ran meanwhile, by file, as V8 counts them. */
async function ranDuring(work: () => Promise<unknown>): Promise<Map<string, Set<string>>> {
  const inspector = new Session()
  inspector.connect()
  await inspector.post('Profiler.enable')
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await inspector.post('Profiler.takePreciseCoverage')
  await work()
  const { result } = await inspector.post('Profiler.takePreciseCoverage')
  inspector.disconnect()
  return new Map(
    result.map(({ url, functions }) => [
      relative(root, url.startsWith('file:') ? fileURLToPath(url) : url),
      new Set(
        functions
          .filter(({ ranges }) => ranges.some(({ count }) => count > 0))
          .map(({ functionName }) => functionName),
      ),
    ]),
  )
}

/** Where one process shows it: not in OpenCode, the agent and the Worker. */
const isHere = (file: string) =>
  /^src\/(core|http|adapters)\//.test(file) && !/remote\.ts$|gate-plugin\.ts$/.test(file)

/** The names of a walk in ARCHITECTURE.md that are functions of a file here, and did not run in any. */
function notPassed(title: string, ran: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const steps = walks.find((walk) => walk.title === title)?.steps ?? []
  return steps.flatMap(({ names, files }) =>
    names.filter((name) => {
      const declared = new RegExp(
        `(function\\*? |const |readonly |async |^ {2})${name}(<.*>)?(\\(| = )`,
        'm',
      )
      const owners = files.filter((file) => declared.test(readFileSync(join(root, file), 'utf8')))
      const isOfHere = owners.length > 0 && owners.every(isHere)
      return isOfHere && !owners.some((file) => ran.get(file)?.has(name))
    }),
  )
}

test('a tool callback passes every function that ARCHITECTURE.md names for it', async () => {
  const session = await host().begin({})
  const ran = await ranDuring(async () => {
    await session.callback('save_env_files', { files: [] })
    await host().live(1000)
  })
  expect(ran.size).toBeGreaterThan(40)
  expect(notPassed('A tool callback', ran)).toEqual([])
})

test('a gate question passes every function that ARCHITECTURE.md names for it', async () => {
  const session = await host().begin({})
  await session.prompt()
  const ran = await ranDuring(() => session.ask('bash', { command: 'curl https://example.com' }))
  expect(notPassed('A gate question', ran)).toEqual([])
})

test('an event passes every function that ARCHITECTURE.md names for it', async () => {
  const session = await host().begin({})
  const { id: turnId } = await session.prompt()
  const part = { turnId, sessionId: 'ses', messageId: 'msg', partId: 'prt' }
  const ran = await ranDuring(async () => {
    session.agent.emit('message.text', { ...part, text: 'Done', reasoning: false })
    await host().live(100)
  })
  // Whoever watches does so by a socket of the host.
  const watching = ['publish', 'followEvents', 'eventStream']
  expect(notPassed('An event', ran).filter((name) => !watching.includes(name))).toEqual([])
})
