/** A JSON request to the public API; a refusal becomes an error with its message. */
export function createApi(url: string, key: string) {
  return async <T>(method: string, path: string, body?: object): Promise<T> => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    })
    const text = await response.text()
    if (!response.ok)
      throw new Error(
        `${method} ${path} was refused with ${response.status}: ${text.slice(0, 500)}`,
      )
    return (text === '' ? undefined : JSON.parse(text)) as T
  }
}
