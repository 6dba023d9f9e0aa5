import { expect, test } from 'vitest'
import { upstreamSentHeaders } from '../../src/http/kit/upstream/pass.ts'

test('[SEC14] a host is asked for an encoding that is searched, whatever the sandbox asks for', () => {
  for (const asked of ['zstd', 'deflate', 'br;q=1, *', ''])
    expect(
      upstreamSentHeaders(new Headers({ 'accept-encoding': asked }), new Map()).get(
        'accept-encoding',
      ),
    ).toBe('gzip')
})
