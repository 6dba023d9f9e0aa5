// The two ways between the agent and the network inside an enclosure, neither of which the inside can use for anything
// else. Outwards: a short-lived Node inside listens, hands its sockets to the agent and ends; from then on the agent
// accepts the inside's connections itself. Inwards: one pair of `cat` per connection, started in the inside's network,
// because OpenCode listens on TCP alone. A Node that stayed as a bridge would cost 70 MB.

import { type ChildProcess, spawn } from 'node:child_process'
import type { Server, Socket } from 'node:net'
import { signalMarked } from '../marked-processes.ts'

/** Inside, where nobody else listens. */
export const relayPort = 4000
export const proxyPort = 4001
export const socksPort = 4002

/** Listens on the ports and passes each server on. Ends once they are on their way. */
export const innerPortsText = (ports: readonly number[]): string =>
  `const net=require('node:net');const ports=${JSON.stringify(ports)};let left=ports.length;` +
  `for(const port of ports){` +
  `const server=net.createServer();` +
  `server.on('error',(error)=>{console.error(String(error));process.exit(1)});` +
  `server.listen(port,'127.0.0.1',()=>process.send({port},server,()=>--left||process.exit()))}`

/** The servers by their port, once all have come. If they do not come, the child ends. */
export function receiveInnerPorts(
  child: ChildProcess,
  ports: readonly number[],
): Promise<Map<number, Server>> {
  const servers = new Map<number, Server>()
  return new Promise((resolve) => {
    child.on('message', (message: { port: number }, server) => {
      servers.set(message.port, server as Server)
      if (servers.size === ports.length) resolve(servers)
    })
  })
}

// The first cat ends when the server closes the connection, and must take the other one with it.
const bridge =
  'exec 4<>"/dev/tcp/127.0.0.1/$1" || exit 1; ( cat <&4 >&3; kill $$ ) & exec cat <&3 >&4'

/** A connection to a port inside. Whoever has started this agent finds its processes by the environment's marks. */
export function connectInnerPort(
  pid: number,
  hasUserNamespace: boolean,
  port: number,
  environment: NodeJS.ProcessEnv,
): Socket {
  const namespaces = hasUserNamespace ? ['--user', '--preserve-credentials', '--net'] : ['--net']
  const args = [
    '--target',
    String(pid),
    ...namespaces,
    '--',
    'bash',
    '-c',
    bridge,
    'bash',
    `${port}`,
  ]
  const child = spawn('nsenter', args, {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    detached: true,
    env: environment,
  })
  const socket = child.stdio[3] as Socket
  child.once('error', (error) => socket.destroy(error))
  socket.once('close', () => {
    if (child.pid !== undefined) signalMarked(-child.pid, 'SIGKILL')
  })
  return socket
}
