/** Head and tail of a text that is too long, with a mark between them. Never through the middle of a character. */
export function cutText(text: string, max: number): string {
  if (text.length <= max) return text
  const mark = (left: number) => `\n… ${left} characters left out …\n`
  const room = Math.max(0, max - mark(text.length).length)
  const head = text.slice(0, Math.ceil(room / 2)).replace(/[\ud800-\udbff]$/, '')
  const tail = room < 2 ? '' : text.slice(-Math.floor(room / 2)).replace(/^[\udc00-\udfff]/, '')
  return head + mark(text.length - head.length - tail.length) + tail
}
