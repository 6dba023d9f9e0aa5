import type { Stack } from '../local/stack/stack.ts'

/** As the newcomer's admin. */
export async function api(
  stack: Pick<Stack, 'url' | 'adminKey'>,
  method: string,
  path: string,
  body?: object,
): Promise<unknown> {
  const { status, answer } = await ask(stack, method, path, body)
  if (status >= 400)
    throw new Error(`${method} ${path} answered ${status}: ${JSON.stringify(answer)}`)
  return answer
}

export async function ask(
  stack: Pick<Stack, 'url' | 'adminKey'>,
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<{ status: number; answer: unknown }> {
  const response = await fetch(stack.url + path, {
    method,
    headers: {
      authorization: `Bearer ${stack.adminKey}`,
      'content-type': 'application/json',
      ...headers,
    },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, answer: await response.json() }
}
