/** `https://user:password@host` without what is before the host. */
export const withoutUserInfo = (text: string): string =>
  text.replaceAll(/(\bhttps?:\/\/)[^\s/"'@]+@/gi, '$1')

const secretSetting = /^\s*(extraheader|token|oauthtoken|password|passwd|smtppass)\s*=/i

/** A configuration of git without credentials: in addresses, in headers, in helpers. */
export function cleanGitCredentials(text: string): string {
  const kept: string[] = []
  let inCredentials = false
  let goesOn = false
  for (const line of text.split('\n')) {
    const isSection = !goesOn && /^\s*\[/.test(line)
    if (isSection) inCredentials = /^\s*\[\s*credential\b/i.test(line)
    const dropped: boolean =
      inCredentials || (goesOn ? droppedBefore(kept) : secretSetting.test(line))
    goesOn = /(^|[^\\])(\\\\)*\\$/.test(line)
    kept.push(dropped ? gone : line)
  }
  return withoutUserInfo(kept.filter((line) => line !== gone).join('\n'))
}

const gone = '\0'
const droppedBefore = (lines: string[]) => lines.at(-1) === gone

/** Settings of package registries without literal tokens; a `${NAME}` is a reference and stays. */
export function cleanRegistryCredentials(text: string): string {
  const lines = text.split('\n').filter((line) => !isToken(line))
  return withoutUserInfo(lines.join('\n'))
}

function isToken(line: string): boolean {
  const value = /(?:_auth|authtoken|authident|_password|^\s*password)\w*["']?\s*[=:]\s*(.*)$/i.exec(
    line,
  )
  return value !== null && !/^["']?\$\{/.test(value[1] ?? '')
}
