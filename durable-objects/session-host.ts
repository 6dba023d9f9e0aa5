import { linkClose } from '../src/contract/link.ts'
import type { SessionHost } from '../src/core/session/record/ports.ts'

/** Survives hibernation with the socket. */
export interface LinkAttachment {
  generation: number
  greeted: boolean
  since: number
}

const open = 1
const closed = 3

/** Sockets, alarm and time of one Durable Object, as its session needs them. */
export function createSessionHost(ctx: DurableObjectState): SessionHost {
  const agent = () => ctx.getWebSockets('link').find((socket) => socket.readyState === open)
  return {
    arm(at) {
      if (at === null) void ctx.storage.deleteAlarm()
      else void ctx.storage.setAlarm(at)
    },
    sendToAgent(text) {
      const socket = agent()
      socket?.send(text)
      return socket !== undefined
    },
    closeAgent(code, reason) {
      agent()?.close(code, reason)
    },
    agentGreeted() {
      const socket = agent()
      const attachment = socket?.deserializeAttachment() as LinkAttachment | undefined
      if (attachment) socket?.serializeAttachment({ ...attachment, greeted: true })
    },
    agentConnected() {
      return (agent()?.deserializeAttachment() as LinkAttachment | undefined)?.greeted === true
    },
    agentHeardAt() {
      const socket = agent()
      if (!socket) return null
      const pingedAt = ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0
      // One that an earlier release has accepted does not say since when.
      const { since = Date.now() } = socket.deserializeAttachment() as Partial<LinkAttachment>
      return Math.max(pingedAt, since)
    },
    watched: () => ctx.getWebSockets('watch').length > 0,
    publish(events) {
      const text = JSON.stringify(events)
      for (const socket of ctx.getWebSockets('watch'))
        if (socket.readyState === open) socket.send(text)
    },
    sleep: (ms) => scheduler.wait(ms),
    // A timer is looked at once there is nothing else to do.
    gather: () => scheduler.wait(0),
    defer: (work) => ctx.waitUntil(work),
    async erase() {
      for (const socket of ctx.getWebSockets())
        socket.close(linkClose.fenced, 'The session was deleted')
      // In this order: an alarm without a session does nothing, a session without its alarm stays for ever.
      await ctx.storage.deleteAll()
      await ctx.storage.deleteAlarm()
    },
  }
}

/** Accepts the agent's socket; an older one is superseded. */
export function acceptSessionHostLink(ctx: DurableObjectState, generation: number): WebSocket {
  const pair = new WebSocketPair()
  for (const old of ctx.getWebSockets('link')) old.close(linkClose.superseded, 'Connected again')
  ctx.acceptWebSocket(pair[1], ['link'])
  const attachment: LinkAttachment = { generation, greeted: false, since: Date.now() }
  pair[1].serializeAttachment(attachment)
  return pair[0]
}

/** Answers a close: without it the other side waits for ever. Its code may not be one that a server may send. */
export function closeSessionHostLink(socket: WebSocket, code: number, reason: string): void {
  const sendable = code === 1000 || (code >= 3000 && code <= 4999)
  if (socket.readyState < closed) socket.close(sendable ? code : 1000, reason)
}
