/** The look of the HTML report: system fonts, light and dark, readable without colours. */
export const style = `
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --soft: #9a6700; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --good: #56d364; --soft: #e3b341; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: .75rem 0 .25rem; } small { font-weight: normal; opacity: .75; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
thead th { white-space: nowrap; } td { font-variant-numeric: tabular-nums; }
details { border: 1px solid var(--line); border-left-width: 5px; border-radius: 6px; margin: .5rem 0; padding: .25rem .75rem; }
summary { cursor: pointer; padding: .35rem 0; overflow-wrap: anywhere; }
:focus-visible { outline: 3px solid Highlight; outline-offset: 2px; }
.mark { border: 1px solid currentColor; border-radius: 4px; font-size: .8rem; padding: 0 .4rem; margin-right: .4rem; }
.pass { border-left-color: var(--good); } .pass > summary .mark { color: var(--good); }
.borderline { border-left-color: var(--soft); } .borderline > summary .mark { color: var(--soft); }
.fail, .error { border-left-color: var(--bad); } .fail > summary .mark, .error > summary .mark, p.error { color: var(--bad); }
.score { float: right; font-variant-numeric: tabular-nums; }
.regression td:nth-child(2), .improvement td:nth-child(2) { white-space: nowrap; }
.regression td:nth-child(2) { color: var(--bad); font-weight: 600; } .improvement td:nth-child(2) { color: var(--good); }
.tag { border: 1px solid var(--line); border-radius: 4px; font-size: .75rem; padding: 0 .3rem; }
.gate { border: 2px solid var(--soft); border-radius: 6px; padding: .5rem 1rem; }
.gate.pass { border-color: var(--good); } .gate.fail { border-color: var(--bad); }
ul { margin: .25rem 0; padding-left: 1.25rem; overflow-wrap: anywhere; } ul:empty { display: none; }
.misses li::marker { content: '✗ '; color: var(--bad); } .hits li::marker { content: '✓ '; color: var(--good); }
pre { background: #8881; border-radius: 6px; max-height: 20rem; overflow: auto; padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.facts { opacity: .85; } .filter label { padding-left: .4rem; }
.skip { position: absolute; left: -999px; } .skip:focus { left: 1rem; top: 1rem; background: Canvas; padding: .5rem; }
body:has(#only-failed:checked) .case.pass { display: none; }
`
