import { expect, test } from 'vitest'
import { evalFiles } from '../support/eval-kit.ts'
import { useHost } from '../support/host.ts'

const host = useHost()
const at = '/v1/evals/runs'
const cases = ['a', 'b', 'c', 'd', 'e', 'f']
const answersOf = (texts: string[]) =>
  Object.fromEntries(cases.map((id, index) => [id, texts[index] ?? '4']))
const begin = (texts: string[], project?: string) =>
  host().ok('POST', at, {
    ...evalFiles(cases, answersOf(texts), {}, ['c']),
    ...(project && { project }),
  })

test('[EVAL45] a run is printed in each form, and compared with a baseline', async () => {
  const before = await begin([])
  const after = await begin(['4', 'five', 'six'])
  await host().live(6000)
  const report = async (query: string) => {
    const answer = await host().app.app.request(`${at}/${after.id}/report?${query}`, {
      headers: { authorization: `Bearer ${host().key}` },
    })
    expect([query, answer.status]).toEqual([query, 200])
    return { headers: answer.headers, text: await answer.text() }
  }

  const html = await report('')
  expect(html.headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(html.headers.get('content-disposition')).toBe(`attachment; filename="${after.id}.html"`)
  expect(html.text).toContain('Evals: sums')
  expect(html.text).not.toContain('Comparison')

  const compared = await report(`baseline=${before.id}`)
  expect(compared.text).toContain('only the candidate 0')
  expect(compared.text).toContain('regression')

  const junit = await report('format=junit')
  expect(junit.text).toContain('<testsuites name="sums" tests="6" failures="2" errors="0">')
  const markdown = await report(`format=markdown&baseline=${before.id}`)
  expect(markdown.text).toContain('### Regressions (2)')
  expect(markdown.text).toMatch(/^\| c \(required\) \|/m)
  expect(markdown.text).toMatch(/^\| b \|/m)
  const lines = (await report('format=jsonl')).text.trim().split('\n')
  const { items } = await host().ok('GET', `${at}/${after.id}/attempts`)
  expect(lines.map((line) => JSON.parse(line))).toEqual(
    items.map(({ result }: { result: unknown }) => result),
  )
})

test('[EVAL45] nobody gets a report by way of a run that they may not see', async () => {
  const [secret, own] = [await begin([], 'alpha'), await begin([], 'beta')]
  await host().live(6000)
  const limited = { scopes: ['read'], limits: { projects: ['beta'] } }
  const { secret: key } = await host().ok('POST', '/v1/keys', { name: 'b', ...limited })
  const refusal = (path: string) => host().refusal('GET', `${at}/${path}`, undefined, key)
  expect(await refusal(`${secret.id}/report`)).toEqual([404, 'not_found'])
  expect(await refusal(`${own.id}/report?baseline=${secret.id}`)).toEqual([404, 'not_found'])
  expect(await refusal(`${own.id}/report?target=none`)).toEqual([422, 'unprocessable'])
  expect(await refusal(`${own.id}/report?baseline=${own.id}&baselineTarget=x`)).toEqual([
    ...[422, 'unprocessable'],
  ])
})
