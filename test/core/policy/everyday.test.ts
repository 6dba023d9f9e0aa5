import { describe, expect, test } from 'vitest'
import { decideCommand, decideTool } from './requests.ts'

/** What developers and agents type all day. A gate that asks here would be switched off. */
const commands = [
  ...['npm test', 'npm install', 'npm ci', 'npm run build', 'npm run lint -- --fix', 'pnpm i'],
  ...['npx tsc --noEmit', 'npx vitest run src/a.test.ts', 'yarn install --frozen-lockfile'],
  ...['pnpm -r test', 'node script.js', 'node --test', 'node --env-file=.env server.js'],
  ...['node -e "console.log(1 + 1)"', 'python script.py --flag', 'python3 -m pytest -q'],
  ...['python3 -c "import sys; print(sys.version)"', 'python3 -m venv .venv'],
  ...['source .venv/bin/activate && pip install -r requirements.txt', 'pip install requests'],
  ...[
    'make',
    'make -j4 test',
    'cargo build --release',
    'cargo test',
    'go test ./...',
    'mvn -q test',
  ],
  ...['go build -o bin/app ./cmd/app', './gradlew test', './scripts/run.sh --all'],
  ...['bash scripts/build.sh', 'bash -x scripts/build.sh', 'sh -c "npm test"'],
  ...[
    "bash -lc 'cd src && ls'",
    'tsc -p tsconfig.json',
    'eslint . --ext .ts',
    'prettier --check .',
  ],
  ...['git status', 'git status --short', 'git diff', 'git diff HEAD~1 -- src/x.ts', 'git add -A'],
  ...['git log --oneline -10', "git log --format='%h %s' --since=2.weeks", 'git branch -a'],
  ...['git add src/x.ts test/x.test.ts', 'git commit -m "fix: handle /api/users and ~/x"'],
  ...["git commit -am 'wip'", 'git checkout -b feature/x', 'git switch -c y', 'git stash'],
  ...['git stash pop', 'git show HEAD:src/x.ts', 'git rev-parse --show-toplevel', 'git clean -n'],
  ...['git fetch origin', 'git pull --rebase', 'git restore src/x.ts', 'git reset HEAD~1'],
  ...['git -c user.name=x -c user.email=y@z commit -m x', 'git config user.email "a@b.c"'],
  ...['git branch -M main', 'git remote -v', 'git -C src add ../x.ts', 'git merge main'],
  ...['ls', 'ls -la src', 'ls -la .env', 'cat src/x.ts', "cat package.json | jq '.scripts'"],
  ...[
    'head -50 README.md',
    'tail -n 20 log.txt',
    'grep -rn "TODO" src',
    'pwd',
    'whoami',
    'date +%s',
  ],
  ...['grep -rn "/api/v1" src --include=*.ts', String.raw`rg -n "\.env" src`, 'wc -l src/*.ts'],
  ...['find . -name "*.ts" -not -path "./node_modules/*"', "find . -name '.env*'"],
  ...["find src -type f -name '*.test.ts' | head", 'find . -type f -exec wc -l {} +'],
  ...['find src -exec grep -n "/api" {} +', "sed -n '1,40p' src/x.ts"],
  ...["sed -i 's/foo/bar/g' src/x.ts", "sed -i 's#/old/path#/new/path#' src/x.ts"],
  ...["sed -n '/start/,/end/p' src/x.ts", "awk -F/ '{print $2}' list.txt"],
  ...[`awk '/foo/ {print $1 " | " $2}' list.txt`, 'sort -u list.txt | uniq -c', 'ls | wc -l'],
  ...['mkdir -p src/new/folder', 'touch src/new.ts', 'rm src/old.ts', 'rm -f dist/a.js dist/b.js'],
  ...['mv src/a.ts src/b.ts', 'cp src/a.ts src/b.ts', 'cp .env.example .env', 'cat .env.example'],
  ...[
    'echo ".env" >> .gitignore',
    'echo "hello" > out.txt',
    String.raw`printf '%s\n' a > list.txt`,
  ],
  ...['chmod +x scripts/run.sh', 'diff -u a.txt b.txt', 'tar czf out.tgz dist', 'unzip -q x.zip'],
  ...['tar -xzf x.tgz -C vendor', 'kill 12345', 'kill %1', 'sleep 2', 'echo $PATH', 'echo "$HOME"'],
  ...[
    'ps aux | grep node',
    'du -sh node_modules',
    'df -h .',
    'uname -a',
    'which node',
    'env X=1 ls',
  ],
  ...['NODE_ENV=test npm test', 'CI=1 npx jest --ci 2>&1 | tail -40', 'npm test > test.log 2>&1'],
  ...[
    'npm test 2>/dev/null || true',
    'cd src && ls',
    'cd src && cat ../package.json',
    '(cd src; ls)',
  ],
  ...[
    'cd packages/a && npm test && cd ../b && npm test',
    'timeout 60 npm test',
    'time npm run build',
  ],
  ...['set -e; cd src; cat ../package.json', 'set -euo pipefail; npm test', 'set -x'],
  ...[
    'nohup npm run dev > dev.log 2>&1 &',
    'for f in src/*.ts; do wc -l "$f"; done',
    'command -v rg',
  ],
  ...['while IFS= read -r line; do echo "$line"; done < list.txt', 'test -f .env && echo yes'],
  ...['if [ -f package.json ]; then npm ci; else echo none; fi', '[ -d node_modules ] || npm ci'],
  ...[
    'export FOO=bar && npm test',
    "python3 - <<'EOF'\nprint(1)\nEOF",
    'env --version',
    'PATH=/usr/local/go/bin:$PATH go test',
    'export PATH=$PATH:$HOME/go/bin && go vet ./...',
    'export PATH="$PWD/node_modules/.bin:$PATH" && tsc -v',
  ],
  ...['git ls-files | xargs wc -l', 'git diff --name-only | xargs npx prettier --write'],
  ...['git ls-files -z | xargs -0 grep -n foo', 'xargs -n1 echo < list.txt', 'psql -c "select 1"'],
  ...['sqlite3 db.sqlite "select * from users"', '{ echo a; echo b; } > out.txt'],
  ...['x=$(git rev-parse HEAD); echo "$x"', 'npm test 2>&1 | tee .proliferate/tests.txt'],
  ...['export DATABASE_URL="$(jq -r .DATABASE_URL /tmp/.session_env.json)"'],
  ...["cat <<'EOF' > src/new.ts\nexport const x = { a: `$(rm -rf /)` }\nEOF"],
  ...['cat > notes.md <<EOF\n# Title with $(date)\nEOF', 'cat /home/user/work/src/x.ts'],
  ...['git commit -m "$(cat <<\'EOF\'\nfeat: thing (with parens)\n\nbody: $dollar\nEOF\n)"'],
]

describe('everyday work', () => {
  test('[POL14] there are enough of them', () => {
    expect(commands.length).toBeGreaterThan(120)
  })

  test.each(commands)('[POL14] "%s" is allowed', (command) => {
    expect(decideCommand(command)).toMatchObject({ decision: 'allow' })
  })

  test('[POL14] a long file in a here-document is allowed, and read as far as it matters', () => {
    const line = 'export const f = (a) => { return [a, g(a), `${h(a)}`] }\n'
    const file = `cat > src/long.ts <<'EOF'\n${line.repeat(800)}EOF\n`
    expect(decideCommand(file).decision).toBe('allow')
    expect(decideCommand(`${file}npm test`).decision).toBe('allow')
    expect(decideCommand(`${file}rm -rf src`).decision).toBe('ask')
    const fed = `bash <<'EOF'\n${'echo "(a) {c}"\n'.repeat(60)}rm -rf src\nEOF\n`
    expect(decideCommand(fed)).toMatchObject({
      decision: 'ask',
      reason: expect.stringContaining('rm -rf src'),
    })
  })

  test('[POL9] what only looks like a here-document hides nothing', () => {
    const filler = '(x) '.repeat(2000)
    expect(decideCommand(`echo "<<'EOF'\n${filler}\nEOF\n"; rm -rf src`).decision).toBe('ask')
    expect(decideCommand(`echo "<<'EOF'\n$(rm -rf src) ${filler}\nEOF\n"`).decision).toBe('ask')
    expect(decideCommand(`# <<'EOF'\nrm -rf src\n# ${filler}\nEOF`).decision).toBe('ask')
  })

  const tools: [string, unknown][] = [
    ['read', { filePath: 'src/x.ts' }],
    ['read', { filePath: '/home/user/work/README.md' }],
    ['read', { filePath: '/home/user/.local/share/opencode/tool-output/tool_1' }],
    ['read', { filePath: '.env.example' }],
    ['write', { filePath: 'src/x.ts', content: '' }],
    ['write', { filePath: '.env', content: '' }],
    ['edit', { filePath: 'src/x.ts', oldString: 'a', newString: 'b' }],
    ['apply_patch', { patchText: '*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch' }],
    ['glob', { pattern: '**/*.ts' }],
    ['grep', { pattern: 'x', path: 'src', include: '*.ts' }],
    ['list', {}],
    ['todowrite', { todos: [] }],
    ['todoread', {}],
    ['task', { description: 'd', prompt: 'p', subagent_type: 'explore' }],
    ['skill', { name: 'x' }],
    ['invalid', { tool: 'x', error: 'y' }],
    ['verify', { folder: 'x' }],
    ['automation_complete', {}],
  ]
  test.each(tools)('[POL14] [POL18] the tool %s with %j is allowed', (tool, input) => {
    expect(decideTool(tool, input)).toMatchObject({ decision: 'allow' })
  })
})
