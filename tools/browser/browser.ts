import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../local/binaries.ts'

/**
 * A real browser for tests: the Chromium of the system, driven by the packages of this folder, which `npm install` of the
 * project does not bring. Null where one of them is missing.
 */

/** The part of Playwright's page that tests here use. */
export interface Page {
  goto(url: string): Promise<unknown>
  on(kind: 'request', hear: (request: { url(): string }) => void): void
  on(kind: 'dialog' | 'pageerror', hear: () => void): void
  keyboard: { press(key: string): Promise<void> }
  evaluate<T>(script: string): Promise<T>
  screenshot(options: { path: string }): Promise<unknown>
}
export interface Browser {
  newPage(options: { viewport: { width: number; height: number } }): Promise<Page>
  close(): Promise<void>
}
interface Playwright {
  chromium: { launch(options: { executablePath: string; args: string[] }): Promise<Browser> }
}

const modules = join(root, 'tools/browser/node_modules')
const places = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

const found = places.find((place) => existsSync(place))
export const axePath = join(modules, 'axe-core/axe.min.js')
export const hasBrowser =
  found !== undefined && existsSync(join(modules, 'playwright-core')) && existsSync(axePath)

export async function launchBrowser(): Promise<Browser> {
  const module = join(modules, 'playwright-core/index.mjs')
  const { chromium } = (await import(module)) as Playwright
  // Chromium's own sandbox does not start as root.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return chromium.launch({ executablePath: found ?? '', args })
}
