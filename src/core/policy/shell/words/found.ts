const findNames = /^-(?:i?name|i?path|i?wholename|i?regex)$/

/** Whether `find` with these arguments finds every file of the folder where it starts. */
export function isAllFound(args: readonly string[]): boolean {
  const start = args.findIndex((arg) => /^[-(!]/.test(arg))
  const folders = start < 0 ? args : args.slice(0, start)
  const isWhole = folders.length === 0 || folders.some((folder) => /^[./*]*$/.test(folder))
  const narrowed = args.some(
    (arg, at) =>
      findNames.test(args[at - 1] ?? '') && args[at - 2] !== '!' && /\.\w{1,6}$/.test(arg),
  )
  return isWhole && !narrowed
}

/** Programs that show or pack what they are given. */
const shows =
  /^(?:cat|tac|nl|rev|head|tail|less|more|bat|e?grep|fgrep|rg|sed|awk|cut|sort|uniq|strings|base64|xxd|od|hexdump|diff|cp|mv|tar|zip|gzip|paste|fold|column|tee|dd|curl)$/

/** Whether a command that `find` runs for each file shows it. */
export const showsFound = (words: readonly string[]): boolean =>
  shows.test(words[0]?.replace(/^.*\//, '') ?? '') && words.some((word) => word.includes('{}'))
