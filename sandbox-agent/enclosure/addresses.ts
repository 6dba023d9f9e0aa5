import { BlockList, isIP } from 'node:net'

// What is not the internet: the machine itself, its neighbours, link-local (there are clouds' metadata services),
// shared, documentation, multicast and reserved ranges. IPv4 inside IPv6 is looked at as IPv4.
const own = new BlockList()
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  // Where a cloud's machines get their settings and credentials, though the number is a public one.
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const)
  own.addSubnet(network, prefix, 'ipv4')

const global = new BlockList()
global.addSubnet('2000::', 3, 'ipv6')
const tunnels = new BlockList()
for (const [network, prefix] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
] as const)
  tunnels.addSubnet(network, prefix, 'ipv6')

/** Whether it is an address of the public internet. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 4) return !own.check(address, 'ipv4')
  if (isIP(address) !== 6) return false
  return global.check(address, 'ipv6') && !tunnels.check(address, 'ipv6')
}
