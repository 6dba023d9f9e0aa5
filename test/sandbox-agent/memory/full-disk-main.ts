import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Commands, type Executors } from '../../../sandbox-agent/commands.ts'
import { Memory, Results } from '../../../sandbox-agent/memory/memory.ts'
import { Spool } from '../../../sandbox-agent/memory/spool.ts'

// Runs where no file may grow beyond a few kilobytes, as on a full disk, and prints what became of everything.
const folder = process.argv[2] ?? ''
const file = (name: string) => join(folder, name)
const ids = Array.from({ length: 30 }, (_, n) => `command-${n}`)

async function carryOut() {
  let executed = 0
  const sent: string[] = []
  const diff = async () => {
    executed += 1
    return { patch: 'x'.repeat(300), files: [], truncated: false }
  }
  const results = new Results(file('results.jsonl'))
  const commands = new Commands({ diff } as unknown as Executors, results, (id) => sent.push(id))
  for (const id of [...ids, ...ids]) await commands.receive(id, 'diff', {})
  const torn = !readFileSync(file('results.jsonl'), 'utf8').endsWith('\n')
  const onDisk = ids.filter((id) => new Results(file('results.jsonl')).isDone(id)).length
  // What is acknowledged takes less room: all of it fits again.
  for (const id of ids.slice(0, 27)) results.ack(id)
  const after = new Results(file('results.jsonl'))
  return {
    executed,
    sent: sent.length,
    torn,
    onDisk,
    kept: ids.filter((id) => after.isDone(id)).length,
  }
}

function tell() {
  const spool = new Spool(file('events.jsonl'))
  for (let n = 1; n <= 50; n += 1) spool.append('agent.notice', { message: 'y'.repeat(300) }, n)
  const told = spool.after(0, 100).map(({ seq }) => seq)
  spool.ack(48)
  spool.append('agent.notice', { message: 'there is room' }, 51)
  const again = new Spool(file('events.jsonl')).after(0, 100).map(({ seq }) => seq)
  return { told: told.length, last: told.at(-1), again }
}

function remember() {
  const memory = new Memory(file('memory.json'))
  memory.save({ opencodeSessionId: 'before' })
  memory.save({ loss: 'z'.repeat(10_000) })
  return { loss: memory.value.loss?.length, again: new Memory(file('memory.json')).value }
}

process.stdout.write(JSON.stringify([await carryOut(), tell(), remember()]))
