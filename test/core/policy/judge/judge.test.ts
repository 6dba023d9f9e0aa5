import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Enclosure } from '../../../../src/contract/enclosure.ts'
import type { Policy } from '../../../../src/contract/policy.ts'
import { evaluatePermission } from '../../../../src/core/policy/evaluate.ts'
import {
  policyFromBuiltin,
  sandboxDefault,
  strict,
} from '../../../../src/core/policy/builtin-policy.ts'
import { parsePolicyDocument } from '../../../../src/core/policy/document.ts'
import { replayDecisions } from '../../../../src/core/policy/replay.ts'
import { Operation } from '../../../../src/contract/operation.ts'
import { requestOfOperation } from '../../../../src/core/policy/permission-request.ts'
import { decideTool, place, policyOf, toolRequest } from '../requests.ts'
import { hostile } from './hostile.ts'
import { hostileCode } from './hostile-code.ts'
import { clearPlaces, hostilePlaces } from './hostile-places.ts'
import { hostileHanded } from './hostile-handed.ts'
import { hostileTools } from './hostile-tools.ts'
import { hostileWords } from './hostile-words.ts'

const decide = (command: string, enclosure: Enclosure, policy: Policy = sandboxDefault) =>
  evaluatePermission(toolRequest('bash', { command }), policy, { enclosure })

describe('[POL31] what is not known to be harmless is not clear', () => {
  for (const [kind, commands] of Object.entries({
    ...hostile,
    ...hostileTools,
    ...hostileCode,
    ...hostileWords,
    ...hostilePlaces,
    ...hostileHanded,
  })) {
    test(`there are enough of kind ${kind}`, () => {
      expect(new Set(commands).size).toBeGreaterThanOrEqual(10)
    })
    test.each(commands)(`${kind}: %j is not allowed`, (command) => {
      expect(decide(command, 'none').decision).not.toBe('allow')
      expect(decide(command, 'full', strict).decision).not.toBe('allow')
    })
  }

  test.each(clearPlaces)('%j is allowed', (command) => {
    expect(decide(command, 'none')).toMatchObject({ decision: 'allow' })
  })

  test.each([
    'frobnicate --all',
    'ls --frobnicate',
    'grep --colo=auto x y',
    'cat "$X"',
    'cat src/$X',
    'head -n 1 $(cat list)',
    'timeout --frob 5 ls',
    "python3 -c 'frobnicate()'",
  ])('%j is ambiguous, and nothing worse', (command) => {
    const decided = decide(command, 'none')
    expect(decided).toMatchObject({ decision: 'ask' })
    expect(decided.reason).toContain('(ambiguous)')
    expect(decide(command, 'full').decision).toBe('allow')
  })

  test.each([
    ['x=src; cat $x/a.ts', 'cat src/a.ts'],
    ['for f in a b; do cat $f; done', 'cat b'],
    ['cat {a,b}.ts', 'cat a.ts b.ts'],
    ['X=1; export Y=src/y; cat "$Y"', 'cat src/y'],
    ['cat "$(pwd)/x"', 'cat /home/user/work/x'],
  ])('%j is looked into: "%s" is what a rule finds', (command, found) => {
    expect(decide(command, 'none').decision).toBe('allow')
    const rules = [{ match: { command: found }, decision: 'deny' }]
    expect(decide(command, 'none', policyOf(rules)).decision).toBe('deny')
  })

  test.each([
    'cat $X; X=src',
    'false && X=src; cat $X',
    'x=a; eval "x=/etc"; cat $x',
    'x=a; source lib.sh; cat $x',
    'IFS=b; x=abc; cat $x',
    'x=a; read x < f; cat $x',
    'x=a; declare -n y=x; y=/etc; cat $x',
    'x=a; printf -v x /etc/passwd; cat $x',
    'f() { cat $1; }; f /x',
    'x=$x/y; cat $x',
  ])('%j: the value is not certain', (command) => {
    expect(decide(command, 'none').decision).not.toBe('allow')
  })
})

describe('[POL31] what looks alike and is everyday work is clear', () => {
  test.each([
    'NODE_ENV=test npm test',
    'NODE_OPTIONS=--max-old-space-size=4096 npm run build',
    'RUST_BACKTRACE=1 cargo test',
    "RUSTFLAGS='-D warnings' cargo build",
    'GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build ./...',
    'PYTHONPATH=src python3 -m pytest -q',
    'PYTHONUNBUFFERED=1 python3 x.py --url https://a.example/x',
    'CC=clang make -j8 test',
    "make -j8 CFLAGS='-O2 -g'",
    'PGHOST=localhost PGUSER=x npm test',
    'BROWSER=none npm start',
    'GIT_EDITOR=true git rebase --continue',
    'npm pkg set scripts.test="vitest run"',
    'npm --prefix web test',
    'npx vitest run -t "a name with spaces"',
    "pytest -k 'login and not slow' tests",
    "go test ./... -run 'TestA|TestB'",
    "go build -ldflags '-s -w -X main.version=1' ./cmd/app",
    'cargo run -- "hello world"',
    'node x.js "a b; c"',
    'python3 manage.py migrate',
    'python3 -m pip install -e .',
    'alembic revision --autogenerate -m "add users"',
    'npx prettier --check "src/**/*.{ts,tsx}" --prose-wrap always',
    'npx playwright test --browser=chromium',
    'cat a.json | npx prettier --parser json',
    'ls | tee >(wc -l)',
    'f() { grep x "src/a.ts"; }; f',
    'find . -name a.ts -exec grep -n x {} +',
    "git ls-files '*.ts' | xargs wc -l",
    'git config branch.main.remote origin',
    'git merge -s ours x',
    'git -c user.name=x -c core.autocrlf=input commit -m y',
    'read -r a b < src/list; echo "$a"',
    'tar -xzf dist/x.tar.gz -C build',
    'gradle test --tests "a.B.c d"',
    'uv run pytest -q',
    'yarn workspace web test',
    `sed 's/[^/]*$//' src/list`,
    `sed 's|[/]|x|g; /[[:alpha:]]/d' src/list`,
    `awk -F: '{ s += $3 / NR } END { print s/NR, (a+b)/2 }' src/list`,
    `awk 'NR>1 && /x\\/y/ { gsub(/[^a-z]/, ""); print $2 }' src/list`,
    `node -p "JSON.parse(require('fs').readFileSync('package.json','utf8')).scripts"`,
    `node -e "console.log([1,2,3].map(x => x * 2), process.argv[1])"`,
    `python3 -c 'import json; print(json.load(open("package.json"))["version"])'`,
    `sqlite3 a.db "select * from x where a = 'it''s' and b = \\"c\\" -- one"`,
    `psql -c "select count(*) from users where email ~ '\\w+@a'"`,
    "mysql -e 'show tables\\G'",
    "sqlite3 a.db 'pragma table_info(x)'",
    'cat .git/config .git/HEAD',
    'tar czf x.tgz --exclude .git src',
    "zip -r x.zip src -x '.git/*'",
    'cd .git && ls hooks && cd ..',
    'vite build --outDir dist',
    'tsc --build --clean',
    'uv venv .venv',
    'redis-cli -h localhost -p 6379 get a',
    'wrangler d1 migrations apply db --local',
    'ffmpeg -i a.mp4 -c:v libx264 -map 0:v:0 -vf scale=640:-1 b.mp4',
    'convert a.png -resize 50% b.png',
    'java -Xmx1g -XX:+UseG1GC -jar x.jar',
    'yarn knex migrate:latest',
    'git checkout -B x',
    'pnpm --filter web exec tsc --noEmit',
    'npx @biomejs/biome check .',
    'npx c8 vitest run',
    'ccache gcc x.c',
    'cat a.json | node x.js',
    'echo x | go run .',
    'echo x | dotnet run',
    'git fetch origin main:main',
    "git fetch origin '+refs/heads/*:refs/remotes/origin/*'",
    'git branch -M main',
    'git -c gc.auto=0 fetch',
    'CCACHE_DISABLE=1 make',
    'PKG_CONFIG=pkg-config ./configure',
  ])('%j', (command) => {
    expect(decide(command, 'none')).toMatchObject({ decision: 'allow' })
  })
})

describe('[POL38] the variable of the env file is its path', () => {
  test.each([
    'cat "$PROLIFERATE_ENV_FILE"',
    'jq -r .DATABASE_URL $PROLIFERATE_ENV_FILE',
    'URL=$(jq -r .URL "${PROLIFERATE_ENV_FILE}") npm test',
    'test -f "$PROLIFERATE_ENV_FILE" && wc -c "$PROLIFERATE_ENV_FILE"',
    'x=$PROLIFERATE_ENV_FILE; head -c 100 "$x"',
  ])('%j is clear, also without walls', (command) => {
    expect(decide(command, 'none').decision).toBe('allow')
    const path = '/tmp/.session_env.json'
    const rules = [{ match: { path }, decision: 'deny' }]
    if (!command.includes('jq'))
      expect(decide(command, 'none', policyOf(rules)).decision).toBe('deny')
  })

  test.each([
    'cat "${PROLIFERATE_ENV_FILE%/*}/../etc/passwd"',
    'PROLIFERATE_ENV_FILE=/etc/passwd; cat "$PROLIFERATE_ENV_FILE"',
    "export 'PROLIFERATE_ENV_FILE=/etc/passwd'; cat $PROLIFERATE_ENV_FILE",
    "declare PROLIFERATE_'ENV'_FILE=/etc/passwd; cat $PROLIFERATE_ENV_FILE",
    'read PROLIFERATE_ENV_FILE < x; cat $PROLIFERATE_ENV_FILE',
    "env PROLIFERATE_'ENV_FILE'=/etc/passwd bash -c 'cat $PROLIFERATE_ENV_FILE'",
    "PROLIFERATE_ENV_FILE=/etc/passwd bash -c 'cat $PROLIFERATE_ENV_FILE'",
    'source x; cat $PROLIFERATE_ENV_FILE',
    'rm -rf "$PROLIFERATE_ENV_FILE/../x"',
    'cat "$PROLIFERATE_ENV_FILES"',
  ])('%j is not', (command) => {
    expect(decide(command, 'none').decision).not.toBe('allow')
  })

  test('an operation of the API has another environment', () => {
    const { variables: _, ...asked } = toolRequest('bash', { command: 'cat $PROLIFERATE_ENV_FILE' })
    expect(evaluatePermission(asked, sandboxDefault, { enclosure: 'none' }).decision).toBe('ask')
    const operation = Operation.parse({
      ...{ operation: 'run', category: 'shell', command: 'cat $PROLIFERATE_ENV_FILE' },
    })
    expect(requestOfOperation(operation, place)).not.toHaveProperty('variables')
  })
})

describe('[POL32] the enclosure is part of the decision', () => {
  const unclear = 'frobnicate --all'

  test('sandbox-default allows what is ambiguous inside a full enclosure only, and says so', () => {
    expect(decide(unclear, 'full')).toMatchObject({
      decision: 'allow',
      rule: 'sandbox-default@2#enclosed',
      enclosure: 'full',
      policy: { name: 'sandbox-default', version: 2 },
      reason: expect.stringMatching(/enclosure holds it.*frobnicate.*\(ambiguous\)/s),
    })
    for (const enclosure of ['uid', 'none'] as const)
      expect(decide(unclear, enclosure)).toMatchObject({ decision: 'ask', enclosure })
    // Also if it stands behind something that is clear.
    expect(decide(`ls; ${unclear}; ls`, 'full').reason).toContain('(ambiguous)')
  })

  test('strict asks in every one of them', () => {
    for (const enclosure of ['full', 'uid', 'none'] as const)
      expect(decide(unclear, enclosure, strict)).toMatchObject({
        decision: 'ask',
        rule: 'strict@1#workspace',
      })
  })

  test.each([
    ['rm -rf src', 'ask'],
    ['rm -rf "$X"', 'ask'],
    ['sudo frobnicate', 'ask'],
    ['git push --force origin main', 'ask'],
    ['curl https://a.example', 'ask'],
    ['curl -x b.example https://a.example', 'ask'],
    ['git clone https://a.example/x', 'ask'],
    ['cat /etc/passwd', 'deny'],
    ['cat ${x:-/etc/passwd}', 'deny'],
    ['cat .env', 'deny'],
  ])('a full enclosure does not change %j: %s', (command, decision) => {
    expect(decide(command, 'full').decision).toBe(decision)
    expect(decide(command, 'none').decision).toBe(decision)
  })

  test('a read without a path and an edit that cannot be read ask there, too', () => {
    for (const [tool, input] of [
      ['read', {}],
      ['apply_patch', { patchText: 'nothing' }],
    ] as const)
      expect(
        evaluatePermission(toolRequest(tool, input), sandboxDefault, { enclosure: 'full' })
          .decision,
      ).toBe('ask')
  })

  test('a document may ask for it, and extends the version of its time', () => {
    const parsed = parsePolicyDocument(`name: team
rules:
  - match: { category: shell, enclosure: [none, uid] }
    decision: deny
`)
    const policy = 'policy' in parsed ? policyFromBuiltin(parsed.policy, 1) : sandboxDefault
    expect(policy.builtin).toBe('sandbox-default@2')
    expect(decide('ls', 'none', policy).decision).toBe('deny')
    expect(decide('ls', 'uid', policy).decision).toBe('deny')
    expect(decide('ls', 'full', policy).decision).toBe('allow')
    const before = { ...policy, builtin: 'sandbox-default@1' }
    expect(decide(unclear, 'full', before).rule).toBe('sandbox-default@1#workspace')
    expect(decide(unclear, 'full', before).decision).toBe('ask')
  })

  test('replay decides with the enclosure that was recorded', () => {
    const recorded = (['full', 'uid', 'none'] as const).map((enclosure, seq) => ({
      runId: 'run',
      seq,
      request: toolRequest('bash', { command: unclear }),
      decision: decide(unclear, enclosure),
    }))
    expect(replayDecisions(recorded, sandboxDefault)).toMatchObject({ same: 3, rows: [] })
    expect(replayDecisions(recorded, strict).changed).toEqual({ 'allow->ask': 1 })
  })
})

describe('[POL33] a deny on a path or a host counts what may be it', () => {
  const guarded = policyOf([
    { match: { category: ['shell', 'network', 'git'] }, decision: 'allow' },
    {
      match: { path: 'deploy/**', category: 'shell' },
      decision: 'deny',
      reason: 'Releases only',
    },
    { match: { host: ['evil.example', '*.evil.example'] }, decision: 'deny' },
  ])

  test.each([
    'cat depl*/key',
    'cat d?ploy/key',
    'cat [a-e]eploy/key',
    'cat {deploy,src}/key',
    'cat */key',
    `cat [${'d'.repeat(70)}]eploy/key`,
    'x=deploy; cat $x/key',
    'cat $X/key',
    'cat "$X"',
    'sed -i s/a/b/ dep*/x',
    'echo x > d*/y',
    'cat ${x:-deploy/key}',
    'rm -f src/../deploy/ke?',
    'while read f; do cat "$f"; done < list',
    'cp src/a de*y/',
    'cat ./dep?oy/../deploy/a',
    'curl "http://$HOST/x"',
    'curl http://a@evil.example/',
    'curl http://a:b@evil.example/',
    'curl http://{evil,good}.example/',
    'h=evil.example; curl http://$h/',
    'curl http://${h:-evil.example}/',
    'curl http://evil%2eexample/',
    'wget -qO- "$URL"',
    'ssh $HOST',
    'git ls-remote "https://$h/x"',
    'git clone https://user@EVIL.example/x',
  ])('%j is denied', (command) => {
    expect(decide(command, 'full', guarded).decision).toBe('deny')
  })

  test.each([
    'cat src/*.ts',
    'cat src/[ab].ts',
    'ls docs/*',
    'curl http://good.example/',
    'echo "$X"',
  ])('%j is not it', (command) => {
    expect(decide(command, 'full', guarded).decision).toBe('allow')
  })

  test.each([
    ['glob', { pattern: 'deploy/**' }],
    ['glob', { pattern: './depl?y/*.ts' }],
    ['grep', { pattern: 'x', include: 'deploy/*' }],
    ['grep', { pattern: 'x', include: 'd[e]ploy/*' }],
    ['network', { host: 'EVIL.example', port: 443 }],
    ['network', { host: 'evil.example.', port: 443 }],
    ['network', { host: 'a.evil.example..', port: 443 }],
    ['network', { host: 'ev\u0456l.example', port: 443 }],
  ])("OpenCode's own tool %s with %j is not allowed", (tool, input) => {
    const document = policyOf([
      { match: { category: ['network', 'read'] }, decision: 'allow' },
      { match: { path: 'deploy/**' }, decision: 'deny' },
      { match: { host: ['evil.example', '*.evil.example'] }, decision: 'deny' },
    ])
    expect(decideTool(tool, input, document).decision).not.toBe('allow')
  })

  const sealed = policyOf([
    { match: { category: ['read', 'shell', 'git'] }, decision: 'allow' },
    { match: { path: 'src/sealed/**' }, decision: 'deny' },
    { match: { path: '**/*.pem' }, decision: 'deny' },
  ])

  test.each([
    ['grep', { pattern: 'x' }],
    ['grep', { pattern: 'x', path: 'src' }],
    ['grep', { pattern: 'x', path: '.' }],
    ['grep', { pattern: 'x', include: '*.ts' }],
    ['grep', { pattern: 'x', include: '!*.ts' }],
    ['grep', { pattern: 'x', path: 'docs', include: '*.{pem,txt}' }],
    ['glob', { pattern: '**/*.ts' }],
    ['glob', { pattern: 'k?y*' }],
    ['glob', { pattern: 's*/{sealed,open}/*' }],
    ['glob', { pattern: '*.pem', path: 'docs' }],
    ['glob', { pattern: '**', path: 'src' }],
    ['list', { path: 'src' }],
    ['list', {}],
    ['bash', { command: 'rg x' }],
    ['bash', { command: 'rg x src' }],
    ['bash', { command: 'rg -e x src' }],
    ['bash', { command: 'grep -rn x src' }],
    ['bash', { command: 'grep -rn x --include=*.ts .' }],
    ['bash', { command: 'grep -re x src' }],
    ['bash', { command: 'egrep -R x ./src' }],
    ['bash', { command: 'find src -type f -exec cat {} +' }],
    ['bash', { command: 'find src -type f | xargs cat' }],
    ['bash', { command: 'find -name x' }],
    ['bash', { command: 'fd x' }],
    ['bash', { command: 'fd -e ts . src -x cat' }],
    ['bash', { command: 'patch -p1 < x.diff' }],
    ['bash', { command: 'cp -r src copy' }],
    ['bash', { command: 'tar czf x.tgz src' }],
    ['bash', { command: 'zip -r x.zip src' }],
    ['bash', { command: 'cd src && rg x' }],
    ['bash', { command: 'diff -r src other' }],
    ['bash', { command: 'git grep x' }],
    ['bash', { command: 'git grep x -- src' }],
    ['bash', { command: 'git archive HEAD' }],
  ])('%s with %j takes in what is denied, and is denied', (tool, input) => {
    expect(decideTool(tool, input, sealed).decision).toBe('deny')
  })

  test.each([
    ['grep', { pattern: 'x', path: 'test', include: '*.ts' }],
    ['glob', { pattern: 'src/*.ts' }],
    ['glob', { pattern: 'src/open/**/*.{ts,tsx}' }],
    ['bash', { command: 'cat src/a.ts' }],
    ['bash', { command: 'grep x src/a.ts' }],
  ])('%s with %j does not, and is allowed', (tool, input) => {
    expect(decideTool(tool, input, sealed).decision).toBe('allow')
  })

  test("an edit of git's own files asks, as a command that writes them does", () => {
    const input = { filePath: '.git/config', content: 'x' }
    for (const enclosure of ['none', 'full'] as const)
      expect(
        evaluatePermission(toolRequest('write', input), sandboxDefault, { enclosure }),
      ).toMatchObject({ decision: 'ask', reason: expect.stringContaining("git's own files") })
    expect(decideTool('read', { filePath: '.git/config' }).decision).toBe('allow')
    for (const command of ['cat .git/config', 'rm .git/index.lock', 'sed -n p .git/config'])
      expect(decide(command, 'none').decision).toBe('allow')
  })

  test('what a patch writes is seen only when it runs', () => {
    expect(decideTool('bash', { command: 'git apply x.patch' }, sealed).decision).toBe('deny')
    expect(decide('git apply x.patch', 'none').decision).toBe('allow')
  })

  test('a rule about edits alone leaves searches alone', () => {
    const document = policyOf([
      { match: { category: ['read', 'edit', 'shell'] }, decision: 'allow' },
      { match: { path: 'src/sealed/**', category: 'edit' }, decision: 'deny' },
    ])
    expect(decideTool('grep', { pattern: 'x' }, document).decision).toBe('allow')
    expect(decideTool('bash', { command: 'rg x' }, document).decision).toBe('allow')
    expect(decideTool('write', { filePath: 'src/sealed/x' }, document).decision).toBe('deny')
  })

  test('a command that nobody understands asks where a rule could be about it, walls or not', () => {
    const document = policyOf([{ match: { path: 'deploy/**' }, decision: 'deny' }])
    const extended = { ...document, builtin: 'sandbox-default@2' }
    expect(decide('frobnicate', 'full', extended)).toMatchObject({
      decision: 'ask',
      rule: 'team@3#0',
    })
    expect(decide('npm test', 'full', extended).decision).toBe('allow')
    expect(
      decide('frobnicate', 'full', { ...policyOf([]), builtin: 'sandbox-default@2' }).decision,
    ).toBe('allow')
  })

  test('a later rule that allows the category for certain is still the last', () => {
    const open = policyOf([
      { match: { path: 'deploy/**' }, decision: 'deny' },
      { match: { category: 'shell' }, decision: 'allow' },
    ])
    expect(decide('cat d*/x', 'none', open).decision).toBe('allow')
  })
})

describe('[POL34] scripts for another shell than bash', () => {
  test.each([
    `sh -c 'echo "\${x:-'"'"'}"; ls'`,
    "sh -c 'cat {a,b}'",
    "dash -c '[[ -f x ]]'",
    "sh -c 'x=(a b)'",
    "sh -c 'cat <(ls)'",
    "ash -c 'cat <<< x'",
    "sh -c 'ls &> out'",
    "sh -c 'function f { ls; }'",
    `sh -c "echo $'a'"`,
    "sh -c 'echo ${x//a/b}'",
    "sh -c 'source lib.sh'",
    "zsh -c 'ls'",
    "ksh -c 'ls'",
    "bash --posix -c 'ls'",
    "sh <<'EOF'\n[[ -f x ]]\nEOF",
  ])('%j is ambiguous if it means something else there', (command) => {
    expect(decide(command, 'none')).toMatchObject({
      decision: 'ask',
      reason: expect.stringContaining('ambiguous'),
    })
  })

  test.each(["sh -c 'npm test && ls src'", "bash -c '[[ -f x ]] && cat {a,b}'", 'sh scripts/x.sh'])(
    '%j is not',
    (command) => {
      expect(decide(command, 'none').decision).toBe('allow')
    },
  )
})

const leaving =
  /^(?:git (?:fetch|pull|push|clone|ls-remote|remote|submodule|archive)|npm|pip|uv|yarn|pnpm|cargo|go|gem|composer) [^$]*$/

describe('[POL37] where git and package managers go', () => {
  const category = (command: string) => decide(command, 'full', policyOf([])).rule

  test.each(hostile.network.filter((command) => leaving.test(command)))(
    '%j is network',
    (command) => {
      expect(category(command)).toBe('default:network')
    },
  )

  test.each([
    'git fetch',
    'git fetch origin',
    'git pull --rebase origin main',
    'git clone ./a b',
    'git remote -v',
  ])('%j is git', (command) => {
    expect(category(command)).toBe('default:git')
  })

  test.each([
    'npm install zod',
    'pip install requests',
    'cargo add serde',
    'go get github.com/a/b',
  ])('%j is shell', (command) => {
    expect(category(command)).toBe('default:shell')
  })
})

describe('[POL35] everyday commands', () => {
  const file = join(import.meta.dirname, 'everyday-commands.txt')
  const commands = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.replaceAll(String.raw`\n`, '\n'))
  const share = (enclosure: Enclosure, policy: Policy) =>
    commands.filter((command) => decide(command, enclosure, policy).decision !== 'allow').length /
    commands.length

  test('there are at least 400', () => {
    expect(new Set(commands).size).toBeGreaterThanOrEqual(400)
  })

  test('at most 3 % of them ask inside a full enclosure, and fewer than 15 % without one', () => {
    const shares = {
      full: share('full', sandboxDefault),
      none: share('none', sandboxDefault),
      strict: share('full', strict),
    }
    console.log(`everyday commands that ask: ${JSON.stringify(shares)} of ${commands.length}`)
    expect(shares.full).toBeLessThanOrEqual(0.03)
    expect(shares.none).toBeLessThan(0.15)
    expect(shares.strict).toBe(shares.none)
  })
})
