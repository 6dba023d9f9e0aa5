import { describe, expect, test } from 'vitest'
import { isRepositoryListed } from '../../../src/core/verbs/local-repository.ts'

describe('[LOC29] what GANTRY_LOCAL_REPOSITORIES lists', () => {
  const cases: [url: string, listed: string, is: boolean][] = [
    ['/src/app', '/src', true],
    ['/src/app', '/src/', true],
    ['/src', '/src', true],
    ['/src/app', '/', true],
    ['file:///src/app', '/src', true],
    ['/src/app', 'file:///src', true],
    ['file:///src/a%20b', '/src/a b', true],
    ['/src//app', '/src/app', true],
    ['/srcs/app', '/src', false],
    ['/other', '/src', false],
    ['/src/../etc', '/src', false],
    ['/src/..', '/src', false],
    ['/src/./app', '/src', false],
    ['file:///src/%2e%2e/etc', '/src', false],
    ['file:///src/..%2fetc', '/src', false],
    ['file:///src/%', '/src', false],
    ['ssh://git@host/acme/app', 'ssh://git@host/acme', true],
    ['ssh://git@HOST/acme/app', 'ssh://git@host/acme/', true],
    ['ssh://git@host/acme/app', 'ssh://git@host/', true],
    ['ssh://git@host/acmes/app', 'ssh://git@host/acme', false],
    ['ssh://root@host/acme/app', 'ssh://git@host/acme', false],
    ['ssh://git@host:2222/acme/app', 'ssh://git@host/acme', false],
    ['ssh://git@host.evil/acme/app', 'ssh://git@host/', false],
    ['ssh://git@host/acme/../other', 'ssh://git@host/acme', false],
    ['ssh://git@host/src', '/src', false],
    ['/git@host/acme', 'ssh://git@host/acme', false],
    ['https://host/src', '/src', false],
  ]
  test.each(cases)('%s in %s: %s', (url, listed, is) => {
    expect(isRepositoryListed(url, [listed])).toBe(is)
    expect(isRepositoryListed(url, ['/elsewhere', listed])).toBe(is)
    expect(isRepositoryListed(url, [])).toBe(false)
  })
})
