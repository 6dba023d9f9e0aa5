import { cryptoCharacters } from '../../src/adapters/web-crypto.ts'
import { sandboxProviderSuite, type SandboxWorld } from '../suites/sandbox-provider.ts'
import { MemorySandboxes, nameOf } from '../support/memory-sandboxes.ts'
import { sandboxSpec } from '../support/sandbox-spec.ts'

// The fake that the tests of core use: what they rely on is what every provider does.
sandboxProviderSuite({ name: 'memory', start: async () => startWorld() })

function startWorld(): SandboxWorld {
  const provider = new MemorySandboxes(Date.now)
  const away = new MemorySandboxes(Date.now)
  away.fails = Infinity
  const find = (sessionId: string, generation: number) =>
    provider.running.get(nameOf(sessionId, generation))
  return {
    provider,
    away,
    spec: (overrides) =>
      sandboxSpec({
        sessionId: `ses_${cryptoCharacters(30)}`,
        token: `token-${cryptoCharacters(20)}`,
        ...overrides,
      }),
    kill: async (sessionId, generation) => {
      provider.running.delete(nameOf(sessionId, generation))
    },
    write: async (sessionId, generation, path, text) => {
      find(sessionId, generation)?.files.set(path, text)
    },
    read: async (sessionId, generation, path) =>
      find(sessionId, generation)?.files.get(path) ?? null,
    tokens: async (sessionId, generation) => {
      const found = find(sessionId, generation)
      return found?.info.state === 'running' ? [found.spec.token] : []
    },
    loseNextAnswer: () => void (provider.losesAnswers = 1),
    failNext: () => void (provider.fails = 1),
    leftovers: async () => [...provider.running.keys(), ...provider.snapshots.keys()],
    close: async () => undefined,
  }
}
