import type { Stack } from '../local/stack/stack.ts'

/** As the newcomer's admin. */
export async function api(
  stack: Pick<Stack, 'url' | 'adminKey'>,
  method: string,
  path: string,
  body?: object,
): Promise<unknown> {
  const answer = await fetch(stack.url + path, {
    method,
    headers: { authorization: `Bearer ${stack.adminKey}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
  if (answer.status >= 400)
    throw new Error(`${method} ${path} answered ${answer.status}: ${await answer.text()}`)
  return answer.json()
}
