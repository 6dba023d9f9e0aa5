import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, expect } from 'vitest'
import { compareSides } from '../../src/core/evals/compare/compare.ts'
import { renderHtmlReport } from '../../src/core/evals/reports/html.ts'
import { renderJunitReport } from '../../src/core/evals/reports/junit.ts'
import { axePath, hasBrowser, launchBrowser, type Page } from '../../tools/browser/browser.ts'
import { rowOf, sideOf } from '../core/evals/rows.ts'
import { needing } from '../support/needs.ts'

const inBrowser = needing(hasBrowser, 'Chromium and npm install --prefix tools/browser')
const folder = mkdtempSync(join(tmpdir(), 'gantry-report-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const hostile =
  '</pre><script>alert(1)</script><img src="https://example.com/x.png" onerror="alert(2)">\u0000\u001b'
const baseline = sideOf('a', [1, 1, 1, 1, 1, 1])
const candidate = sideOf('b', [1, 0.7, 0, 1, 1, 1])
candidate.rows[1] = rowOf('c1', 0.7, { candidate_answer: hostile, misses: [hostile] })
candidate.rows[2] = rowOf('c2', 0, { error: hostile, transcript: 'javascript:alert(3)' })
const report = {
  dataset: 'browser',
  sides: [candidate],
  comparison: compareSides(baseline, candidate),
  gate: { outcome: 'fail' as const, reasons: ['Because'] },
}

async function withPage(html: string, look: (page: Page, asked: string[]) => Promise<void>) {
  const path = join(folder, 'report.html')
  writeFileSync(path, html)
  const browser = await launchBrowser()
  try {
    const page = await browser.newPage({ viewport: { width: 1000, height: 1200 } })
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url()))
    page.on('dialog', () => asked.push('a dialog'))
    page.on('pageerror', () => asked.push('an error'))
    await page.goto(pathToFileURL(path).href)
    await look(page, asked)
  } finally {
    await browser.close()
  }
}

inBrowser('[EVAL42] a browser shows the report, asks for nothing else and runs nothing of it', () =>
  withPage(renderHtmlReport(report), async (page, asked) => {
    expect(asked).toHaveLength(1)
    expect(await page.evaluate('document.scripts.length + document.images.length')).toBe(0)
    const shown = await page.evaluate<string[]>(
      '[...document.querySelectorAll("pre")].map((each) => each.textContent)',
    )
    expect(shown[0]).toContain('<script>alert(1)</script>')
    const links = await page.evaluate<string[]>('[...document.links].map((each) => each.protocol)')
    expect(new Set(links)).toEqual(new Set(['file:']))
  }),
)

inBrowser('[EVAL42] the keyboard reaches the cases, filters them and opens them', () =>
  withPage(renderHtmlReport(report), async (page) => {
    const focused = () =>
      page.evaluate<string>(
        'document.activeElement.id || document.activeElement.textContent.trim()',
      )
    const visible = () =>
      page.evaluate<number>(
        '[...document.querySelectorAll("details")].filter((each) => each.checkVisibility()).length',
      )
    await page.keyboard.press('Tab')
    expect(await focused()).toBe('Skip to the cases')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    expect(await focused()).toBe('only-failed')
    expect(await visible()).toBe(6)
    await page.keyboard.press('Space')
    expect(await visible()).toBe(2)
    await page.keyboard.press('Tab')
    expect(await focused()).toMatch(/^borderline c1/)
    const isOpen = () => page.evaluate<boolean>('document.activeElement.parentElement.open')
    expect(await isOpen()).toBe(true)
    await page.keyboard.press('Enter')
    expect(await isOpen()).toBe(false)
    await page.keyboard.press('Enter')
    expect(await isOpen()).toBe(true)
  }),
)

inBrowser('[EVAL42] axe finds nothing in it', () =>
  withPage(renderHtmlReport(report), async (page) => {
    await page.evaluate(readFileSync(axePath, 'utf8'))
    const found = await page.evaluate<{ id: string }[]>(
      'axe.run(document).then(({ violations }) => violations.map(({ id, nodes }) => ({ id, html: nodes[0].html })))',
    )
    expect(found).toEqual([])
  }),
)

inBrowser("[EVAL40] a browser's XML parser reads JUnit", () =>
  withPage('<title>x</title>', async (page) => {
    const xml = JSON.stringify(renderJunitReport(report))
    const parsed = await page.evaluate<[number, number]>(
      `(() => { const read = new DOMParser().parseFromString(${xml}, 'application/xml'); return [read.querySelectorAll('parsererror').length, read.querySelectorAll('testcase').length] })()`,
    )
    expect(parsed).toEqual([0, 6])
  }),
)
