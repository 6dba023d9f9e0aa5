import { type PublicKey, PublicKeys } from '../../src/contract/export.ts'
import { holds, type Verified, verifyBundle } from './verify.ts'

interface World {
  say: (line: string) => void
  read: (path: string) => Uint8Array
  fetch: (url: string) => Promise<Response>
}

const usage = 'Usage: npm run verify -- FILE [--keys URL|FILE]'

/** 0: signature and verdict hold. 1: one of them does not. 2: it could not be checked. */
export async function runVerifyCommand(
  args: readonly string[],
  { say, ...rest }: World,
): Promise<number> {
  const world = { ...rest, say: (line: string) => say(printable(line)) }
  const at = args.indexOf('--keys')
  const from = at === -1 ? null : args[at + 1]
  const files = args.filter((_, index) => at === -1 || (index !== at && index !== at + 1))
  const [file] = files
  if (file === undefined || files.length > 1 || from === undefined) {
    world.say(usage)
    return 2
  }
  try {
    const keys = from === null ? [] : await loadKeys(from, world)
    const verified = await verifyBundle(world.read(file), keys)
    for (const line of report(verified)) world.say(line)
    return holds(verified) ? 0 : 1
  } catch (error) {
    world.say(`Cannot verify "${file}": ${error instanceof Error ? error.message : String(error)}`)
    return 2
  }
}

async function loadKeys(from: string, { read, fetch }: World): Promise<PublicKey[]> {
  const isUrl = /^https?:\/\//.test(from)
  const text = isUrl ? await (await fetch(from)).text() : new TextDecoder().decode(read(from))
  const keys = PublicKeys.safeParse(JSON.parse(text)).data?.keys
  if (!keys) throw new Error(`"${from}" is not a set of Ed25519 keys`)
  return keys
}

/** Names and ids are of the file: none of them may write a line, or move what was written. */
const printable = (line: string): string =>
  line.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (sign) => {
    const code = sign.codePointAt(0) ?? 0
    return `\\u{${code.toString(16)}}`
  })

const signatures: Record<Verified['signature'], string> = {
  holds: 'holds',
  fails: 'DOES NOT HOLD: these bytes are not what this key has signed',
  'unknown-key': 'DOES NOT HOLD: none of the given keys has signed it',
  unreadable: 'was NOT CHECKED: the file does not begin with a signed envelope',
  unchecked: 'was NOT CHECKED: give the keys of the deployment with --keys',
}

const verdicts: Record<Verified['kind'], string> = {
  bundle: 'the timeline is whole, and every change is what it says',
  excerpt: 'these are all lines about the file that were signed, and every change is what it says',
  statement: 'this is one signed statement; it has no timeline and no change to check',
}

function report({ kind, signature, keyId, problem, run, file, counts }: Verified): string[] {
  const listed = Object.entries(counts).map(([type, count]) => `${count} × ${type}`)
  return [
    ...(run === null
      ? []
      : [`Run ${run}${file === null ? '' : `, file ${file}`}: ${listed.join(', ')}`]),
    `Signature ${signatures[signature]}${keyId === null ? '' : ` (key ${keyId})`}`,
    problem === null
      ? `Verdict holds: ${verdicts[kind]}`
      : `Verdict DOES NOT HOLD, first at line ${problem.line}: ${problem.what}`,
  ]
}
