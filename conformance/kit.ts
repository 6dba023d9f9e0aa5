import { randomBytes } from 'node:crypto'
import type { SessionEvent } from '../src/contract/events.ts'
import type { Session } from '../src/contract/session.ts'
import type { TokenCreate, TokenCreated } from '../src/contract/token.ts'
import type { ToolCall } from '../src/contract/tool.ts'
import { type Answer, type Sending, startRequest } from './http.ts'
import { Link, noticeText } from './link.ts'
import { Sandbox } from './sandbox.ts'

export interface Target {
  url: string
  /** An admin key. */
  key: string
  timeoutMs: number
}

export interface Callback {
  /** null: none. */
  token: string | null
  tool: string
  body: string | Uint8Array
  contentType?: string
}

/**
 * What a case drives the deployment with: sessions, tokens and callbacks, over HTTP alone. Everything that it makes is
 * gone after `cleanUp`, which the runner calls also if a case has failed.
 */
export class Kit {
  readonly #target: Target
  readonly #configurationId: () => Promise<string>
  readonly #sessions: string[] = []
  readonly #links: Link[] = []

  constructor(target: Target, configurationId: () => Promise<string>) {
    this.#target = target
    this.#configurationId = configurationId
  }

  /** New for each use, so that no other case and no other run has used it. */
  id(name: string): string {
    return `${name}-${randomBytes(6).toString('hex')}`
  }

  get key(): string {
    return this.#target.key
  }

  send(
    method: string,
    path: string,
    credential: string | null,
    body?: string | Uint8Array,
    headers: Record<string, string> = {},
  ): Sending {
    const { url, timeoutMs } = this.#target
    return startRequest({
      method,
      url: `${url}${path}`,
      headers: {
        ...(credential === null ? {} : { authorization: `Bearer ${credential}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body }),
      timeoutMs,
    })
  }

  async api<T>(method: string, path: string, body?: object): Promise<T> {
    const text = body && JSON.stringify(body)
    const answer = await this.send(method, path, this.key, text).answer
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return (answer.text === '' ? null : JSON.parse(answer.text)) as T
  }

  async session(input: object = {}): Promise<Session> {
    const session = await this.api<Session>('POST', '/v1/sessions', {
      title: 'conformance',
      sandbox: 'none',
      ...input,
    })
    this.#sessions.push(session.id)
    return session
  }

  /** A session of this mode on the run's configuration. */
  async configured(mode: 'setup' | 'automation'): Promise<Session> {
    const configurationId = await this.#configurationId()
    const kind = mode === 'setup' ? { sessionType: 'setup' } : { clientType: 'automation' }
    return this.session({ configurationId, ...kind })
  }

  async token({ id }: Pick<Session, 'id'>, wanted: Partial<TokenCreate> = {}): Promise<string> {
    return (await this.api<TokenCreated>('POST', `/v1/sessions/${id}/tokens`, wanted)).token
  }

  async close({ id }: Session): Promise<void> {
    await this.api('POST', `/v1/sessions/${id}/close`, {})
  }

  async replace({ id }: Session): Promise<void> {
    await this.api('POST', `/v1/sessions/${id}/replace`, {})
  }

  async calls({ id }: Session): Promise<ToolCall[]> {
    return (await this.api<{ items: ToolCall[] }>('GET', `/v1/sessions/${id}/calls?limit=100`))
      .items
  }

  async notices({ id }: Session): Promise<unknown[]> {
    const path = `/v1/sessions/${id}/events?limit=500`
    const { items } = await this.api<{ items: SessionEvent[] }>('GET', path)
    return items.filter(({ kind }) => kind === 'agent.notice').map(({ data }) => data['message'])
  }

  /** Waits until this event of the link is in the log. */
  async stored(session: Session, seq: number): Promise<void> {
    const until = Date.now() + this.#target.timeoutMs
    while (!(await this.notices(session)).includes(noticeText(seq))) {
      if (Date.now() > until) throw new Error(`Event ${seq} of the link is not in the log`)
    }
  }

  startCallback(
    session: Pick<Session, 'id'>,
    { token, tool, body, contentType }: Callback,
  ): Sending {
    const path = `/proliferate/${session.id}/tools/${tool}`
    const headers = contentType === undefined ? {} : { 'content-type': contentType }
    return this.send('POST', path, token, body, headers)
  }

  startCall(
    session: Session,
    token: string | null,
    tool: string,
    id: string,
    args: object,
  ): Sending {
    const body = JSON.stringify({ tool_call_id: id, args })
    return this.startCallback(session, { token, tool, body })
  }

  /** A gateway call as a sandbox makes it. */
  call(session: Session, token: string | null, tool: string, id: string, args: object = {}) {
    return this.startCall(session, token, tool, id, args).answer
  }

  /** What a request for the link's WebSocket is answered. */
  async upgrade({ id }: Session, token: string | null): Promise<Answer> {
    return this.send('GET', `/sandbox/${id}/link`, token, undefined, {
      upgrade: 'websocket',
      connection: 'Upgrade',
      'sec-websocket-key': randomBytes(16).toString('base64'),
      'sec-websocket-version': '13',
    }).answer
  }

  link({ id }: Session, token: string): Link {
    const link = new Link(this.#target.url, id, token, this.#target.timeoutMs)
    this.#links.push(link)
    return link
  }

  /** A sandbox on a greeted link, which answers what the session asks of it. */
  async sandbox(session: Session, token: string): Promise<Sandbox> {
    const link = this.link(session, token)
    await link.greet()
    return new Sandbox(link, (bytes) => this.#upload(session, token, bytes))
  }

  async #upload({ id }: Session, token: string, bytes: Uint8Array): Promise<void> {
    const path = `/sandbox/${id}/artifacts`
    const headers = { 'content-type': 'application/octet-stream' }
    const answer = await this.send('PUT', path, token, bytes, headers).answer
    if (answer.status !== 200) throw new Error(`Cannot upload: ${answer.status} ${answer.text}`)
  }

  /** Deletes one of its sessions now; others are deleted at the end. */
  async delete({ id }: Session): Promise<void> {
    await this.api('DELETE', `/v1/sessions/${id}`)
    this.#sessions.splice(this.#sessions.indexOf(id), 1)
  }

  async cleanUp(): Promise<void> {
    for (const link of this.#links) link.close()
    for (const id of this.#sessions.splice(0)) await this.api('DELETE', `/v1/sessions/${id}`)
  }
}
