import { Refusal } from './refusal.ts'
import { takeSnapshot, type TakeOrder } from './take.ts'
import { removePrivateTree } from '../state/private-files.ts'

// Takes one snapshot in a process of its own: the host goes on answering meanwhile, and when the host dies, the end of
// standard input is seen here, where the sandbox is let go and the copy removed. The order, which holds secrets, is the
// first line of standard input; the answer is one line on standard output.

const ended = new AbortController()
const order = Promise.withResolvers<TakeOrder>()
let input = ''
process.stdin.setEncoding('utf8')
process.stdin.on('data', (text: string) => {
  input += text
  if (input.includes('\n')) order.resolve(JSON.parse(input) as TakeOrder)
})
process.stdin.on('end', () => ended.abort(new Error('The sandbox host has ended the snapshot')))
ended.signal.addEventListener('abort', () => order.reject(ended.signal.reason as Error))

process.stdout.on('error', () => process.exit(1)) // nobody waits for the answer any more

const { target } = await order.promise
const answer = await takeSnapshot(await order.promise, ended.signal).then(
  (bytes) => ({ bytes }),
  (error: unknown) => {
    const code = error instanceof Refusal ? error.code : undefined
    if (code === undefined && !ended.signal.aborted) console.error(error)
    return { code: code ?? 'internal', message: (error as Error).message }
  },
)
if (!('bytes' in answer) || ended.signal.aborted) removePrivateTree(target)
process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0))
