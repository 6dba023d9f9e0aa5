/** The repository's own remote. Matched by `*` only. */
export const originHost = '(origin)'

/** Matched by `*` only for a rule that allows; a rule that asks or denies may be about it. */
export const unknownHost = '(unknown)'

/**
 * The host of an address as programs read it, or null where programs may disagree: user names before "@", backslashes,
 * escapes and other scripts than ASCII.
 */
export function hostOf(address: string): string | null {
  const scheme = /^[a-z][a-z0-9+.-]*:\/\//i.exec(address)?.[0] ?? ''
  const authority = /^[^/?#]*/.exec(address.slice(scheme.length))?.[0] ?? ''
  const six = /^\[([0-9a-f:.]+)\](?::\d{1,5})?$/i.exec(authority)?.[1]
  if (six) return six.toLowerCase()
  const name = /^([a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)\.?(?::\d{1,5})?$/i.exec(authority)?.[1]
  return name ? name.toLowerCase() : null
}
