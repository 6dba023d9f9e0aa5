import { expect, test } from 'vitest'
import { publicPaths } from '../../src/http/openapi.ts'
import { createTestApp } from '../support/app.ts'

interface Operation {
  security?: Record<string, string[]>[]
  responses: Record<string, unknown>
}
interface Document {
  openapi: string
  paths: Record<string, Record<string, Operation>>
}

const testApp = createTestApp({
  db: () => {
    throw new Error('Not needed here')
  },
})
const document = (await testApp.call('GET', '/openapi.json')).json as Document
// Middleware for every route is listed too, under the method ALL.
const routes = testApp.app.routes.filter(({ method }) => method !== 'ALL')
const schemeOf = (path: string) => {
  if (path.startsWith('/v1/deployment/')) return 'operatorKey'
  return path.startsWith('/v1/') ? 'apiKey' : 'sandboxToken'
}
const documentPath = (path: string) => path.replaceAll(/:(\w+)(\{[^}]+\})?/g, '{$1}')

test('the document is OpenAPI 3.1', () => {
  expect(document.openapi).toBe('3.1.0')
  expect(routes.length).toBeGreaterThan(20)
})

for (const name of new Set(routes.map(({ method, path }) => `${method} ${path}`))) {
  const [method = '', path = ''] = name.split(' ')
  const isPublic = publicPaths.some((known) => known === path)
  test(`[AUTH] ${name} is ${isPublic ? 'marked public' : 'in the document, with its door'}`, () => {
    if (path === '/openapi.json') return
    const operation = document.paths[documentPath(path)]?.[method.toLowerCase()]
    expect(operation).toBeDefined()
    const doors = (operation?.security ?? []).flatMap((scheme) => Object.keys(scheme))
    expect(doors).toEqual(isPublic ? [] : [schemeOf(path)])
    if (schemeOf(path) === 'apiKey') expect(operation?.security?.[0]?.['apiKey']).toHaveLength(1)
  })
}

test('the document names no route that does not exist', () => {
  const known = new Set(routes.map(({ method, path }) => `${method} ${documentPath(path)}`))
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const method of Object.keys(operations)) {
      expect(known).toContain(`${method.toUpperCase()} ${path}`)
    }
  }
})
