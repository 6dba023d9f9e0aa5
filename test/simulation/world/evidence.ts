import type { EvidenceBundle } from '../../../src/contract/evidence.ts'
import type { CommandBody } from '../../../src/contract/link.ts'
import { simulatedSession, type Stored } from './opencode.ts'

/** So many messages are in one bundle of evidence, so that a turn with more prompts takes several. */
const bundleMessages = 1

/** What OpenCode has stored of a turn after a message, as far as it fits. */
export function bundleOf(
  stored: Stored,
  { messageIds, after, until }: CommandBody<'evidence'>,
): { bundle: EvidenceBundle; next: string | null } {
  const own = stored.messages.filter(({ info }) => messageIds.includes(info.parentID ?? ''))
  const last = until === undefined ? own.length : own.findIndex(({ info }) => info.id === until) + 1
  const from = own.findIndex(({ info }) => info.id === after) + 1
  const page = own.slice(from, Math.min(last, from + bundleMessages))
  const id = simulatedSession
  const bundle: EvidenceBundle = {
    version: 1,
    capability: {
      schema: { supported: true, fingerprint: 'simulated' },
      writeAheadFile: 'none',
      session: { id, projectId: 'p', directory: '/w', worktree: '/w', vcs: 'git' },
      store: { state: 'missing', fingerprint: null },
      frozen: false,
      formatted: null,
    },
    messages: page.map(({ info }) => ({
      ...{ id: info.id, sessionId: id, parentId: info.parentID ?? null, agent: null },
      ...{ createdAt: info.time?.created ?? 0, completedAt: info.time?.completed ?? null },
    })),
    ...{ parts: [], neighbours: [], windows: [], files: [], failures: [], reads: [] },
  }
  const isMore = from + page.length < last || until !== undefined
  return { bundle, next: isMore ? (page.at(-1)?.info.id ?? null) : null }
}
