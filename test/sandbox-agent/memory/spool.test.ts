import { appendFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Memory, Results } from '../../../sandbox-agent/memory/memory.ts'
import { Spool } from '../../../sandbox-agent/memory/spool.ts'
import { temporaryFolder } from '../support.ts'

const path = () => join(temporaryFolder(), 'events.jsonl')
const fill = (spool: Spool, count: number) => {
  for (let n = 1; n <= count; n += 1) spool.append('agent.notice', { message: `number ${n}` }, n)
}
const seqs = (spool: Spool, after = 0) => spool.after(after, 1000).map((event) => event.seq)

describe('the spool', () => {
  it('numbers from 1 without gaps and gives back what is not acknowledged', () => {
    const spool = new Spool(path())
    fill(spool, 5)
    expect(seqs(spool)).toEqual([1, 2, 3, 4, 5])
    spool.ack(3)
    expect(seqs(spool)).toEqual([4, 5])
    spool.ack(2)
    expect(seqs(spool)).toEqual([4, 5])
    expect(spool.after(4, 10)).toHaveLength(1)
  })

  it('goes on after a restart where it was', () => {
    const file = path()
    fill(new Spool(file), 3)
    const again = new Spool(file)
    expect(seqs(again)).toEqual([1, 2, 3])
    expect(again.append('agent.notice', { message: 'x' }, 0).seq).toBe(4)
  })

  it('keeps its numbers when everything is acknowledged and compacted', () => {
    const file = path()
    const spool = new Spool(file)
    fill(spool, 3)
    spool.ack(3)
    spool.compact()
    const again = new Spool(file)
    expect(seqs(again)).toEqual([])
    expect(again.append('agent.notice', { message: 'x' }, 0).seq).toBe(4)
    expect(seqs(new Spool(file))).toEqual([4])
  })

  it('is readable after a crash at any byte: complete lines stay, the torn one goes', () => {
    const file = path()
    fill(new Spool(file), 4)
    const whole = readFileSync(file)
    const linesBefore = (length: number) =>
      whole.subarray(0, length).toString().split('\n').length - 1
    for (let length = 0; length <= whole.length; length += 1) {
      writeFileSync(file, whole.subarray(0, length))
      const spool = new Spool(file)
      const expected = Math.max(0, linesBefore(length) - 1)
      expect(seqs(spool)).toHaveLength(expected)
      expect(spool.append('agent.notice', { message: 'after' }, 0).seq).toBe(expected + 1)
      spool.close()
      expect(seqs(new Spool(file))).toHaveLength(expected + 1)
    }
  })

  it('[BOX13] a line torn at any byte with others after it: those count, and a notice stands for what is lost', () => {
    const file = path()
    fill(new Spool(file), 6)
    const lines = readFileSync(file, 'utf8').split(/(?<=\n)/)
    // The next line was written onto its end, so the last two are not torn here.
    for (const [torn, line] of lines.slice(0, -2).entries()) {
      for (let length = 0; length < line.length; length += 1) {
        writeFileSync(file, lines.with(torn, line.slice(0, length)).join(''))
        const spool = new Spool(file)
        const told = spool.after(0, 10)
        const first = torn === 0 ? (told[0]?.seq ?? 0) : 1
        expect(first).toBeLessThan(3)
        expect(told.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6].slice(first - 1))
        const lost = told.filter(({ data }) => String(data['message']).endsWith('it is lost'))
        expect(lost.length).toBeLessThan(3)
        expect(spool.append('agent.notice', { message: 'next' }, 0).seq).toBe(7)
        spool.close()
      }
    }
  })

  it('[BOX13] what is left of a line may be JSON and no event: it is passed over', () => {
    const file = path()
    fill(new Spool(file), 2)
    appendFileSync(file, '7\nnull\n"x"\n')
    const spool = new Spool(file)
    expect(seqs(spool)).toEqual([1, 2])
    expect(spool.append('agent.notice', { message: 'next' }, 0).seq).toBe(3)
  })

  it('cuts off a tail that is not JSON', () => {
    const file = path()
    fill(new Spool(file), 2)
    appendFileSync(file, '{"seq":3,"at\n')
    expect(seqs(new Spool(file))).toEqual([1, 2])
  })

  it('goes on from the number that the control plane has when its own file is lost', () => {
    const spool = new Spool(path())
    spool.ack(41)
    expect(spool.append('agent.notice', { message: 'x' }, 0).seq).toBe(42)
  })

  it('knows after a restart which parts of a turn were told', () => {
    const file = path()
    const spool = new Spool(file)
    const part = {
      turnId: 't1',
      sessionId: 's',
      messageId: 'm',
      tool: 'bash',
      callId: 'c',
      input: {},
    }
    spool.append('tool.started', { ...part, partId: 'p1' }, 0)
    spool.append('tool.failed', { ...part, partId: 'p1', error: 'x', durationMs: 1 }, 0)
    spool.append('tool.started', { ...part, partId: 'p2' }, 0)
    spool.append('tool.started', { ...part, partId: 'p3', turnId: 't2' }, 0)
    const told = { started: ['p1', 'p2'], ended: ['p1'], over: false }
    expect(new Spool(file).partsOf('t1')).toEqual(told)
    const end = { state: 'completed', reason: null, text: null, diff: null } as const
    spool.append('turn.ended', { ...end, turnId: 't1' }, 0)
    expect(new Spool(file).partsOf('t1')).toEqual({ ...told, over: true })
  })
})

describe('results of commands', () => {
  it('are sent again until acknowledged, and their ids are never forgotten', () => {
    const file = join(temporaryFolder(), 'results.jsonl')
    const results = new Results(file)
    results.add('one', { ok: true, data: { sent: true } })
    results.add('two', { ok: false, error: 'no' })
    results.ack('one')
    const again = new Results(file)
    expect(again.unacknowledged()).toEqual([['two', { ok: false, error: 'no' }]])
    expect(again.isDone('one')).toBe(true)
    expect(new Results(file).isDone('one')).toBe(true)
    expect(again.isDone('three')).toBe(false)
  })

  it('survive a torn last line', () => {
    const file = join(temporaryFolder(), 'results.jsonl')
    const results = new Results(file)
    results.add('one', { ok: true, data: {} })
    results.add('two', { ok: true, data: {} })
    truncateSync(file, readFileSync(file).length - 5)
    const again = new Results(file)
    expect(again.isDone('one')).toBe(true)
    expect(again.isDone('two')).toBe(false)
  })
})

describe('the memory', () => {
  it('is whole or as it was before', () => {
    const file = join(temporaryFolder(), 'memory.json')
    new Memory(file).save({ opencodeSessionId: 'ses_1' })
    writeFileSync(`${file}.new`, '{"opencodeSess')
    expect(new Memory(file).value.opencodeSessionId).toBe('ses_1')
  })
})
