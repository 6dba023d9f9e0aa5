import { describe, expect, test } from 'vitest'
import type { Category, Risk } from '../../../../src/contract/permission.ts'
import { decideCommand, policyOf } from '../requests.ts'

const risky: Record<Exclude<Risk, 'ambiguous'>, string[]> = {
  destructive: [
    'rm -rf x',
    'rm -fr x',
    'rm -r -f x',
    'rm -R x',
    'rm --recursive x',
    'rm --rec x',
    'rm --r x',
    'rm -rf -- x',
    'rm *',
    'rm -f ./*',
    'ls | xargs rm',
    'ls | xargs timeout 5 rm',
    'find . -exec rm {} \\;',
    'find . -delete',
    'dd if=a of=b',
    'mkfs.ext4 x',
    'mkfs x',
    'truncate -s 0 x',
    'shred x',
    'wipefs x',
    'chmod -R 777 .',
    'chown -R a .',
    'kill -9 -1',
    'kill -- -1',
    'killall node',
    'pkill -f x',
    'rsync -a --delete a/ b/',
    'git push --force',
    'git push -f origin main',
    'git push -uf origin main',
    'git push origin +main',
    'git push origin :main',
    'git push --force-with-lease',
    'git push --forc',
    'git push --delete origin x',
    'git push --mirror',
    'git reset --hard',
    'git reset --hard HEAD~3',
    'git clean -fd',
    'git clean -xfd',
    'git checkout .',
    'git checkout -- .',
    'git checkout -f main',
    'git restore .',
    'git switch --discard-changes x',
    'git branch -D x',
    'git stash drop',
    'git stash clear',
    'git reflog expire --all',
    'git gc --prune=now',
    'git filter-branch x',
    'git update-ref -d x',
    'git tag -d x',
    'git -C . reset --hard',
    '/usr/bin/git clean -f',
    'psql -c "drop table users"',
    'sqlite3 x "select 1"; mysql -e "TRUNCATE TABLE x"',
    'redis-cli flushall',
    'dropdb x',
  ],
  privileged: [
    'sudo ls',
    'sudo -u root -- ls',
    'sudo -n true',
    'doas ls',
    "su -c 'ls'",
    'su - root',
    'mount x y',
    'umount x',
    'chroot x ls',
    'setcap x y',
    'unshare -r ls',
    'nsenter -t 1 ls',
    'docker ps',
    'podman run x',
    'systemctl stop x',
    'apt-get install x',
    'crontab x',
    'chmod 4755 x',
    'chmod u+s x',
    'iptables -F',
    'useradd x',
    'reboot',
    'modprobe x',
  ],
  external: [
    'git push',
    'git push -u origin x',
    'npm publish',
    'pnpm publish',
    'cargo publish',
    'gem push x',
    'twine upload x',
    'npx wrangler deploy',
    'terraform apply',
  ],
}

describe('risks of commands', () => {
  const rows = Object.entries(risky).flatMap(([risk, list]) =>
    list.map((command) => ({ risk, command })),
  )
  test.each(rows)('[POL11] $command is $risk', ({ risk, command }) => {
    const decided = decideCommand(command)
    expect(decided.decision).toBe('ask')
    expect(decided.reason).toContain(risk)
  })

  test('[POL11] writing to a device is destructive and outside', () => {
    for (const device of ['sda', 'nvme0n1', 'mapper/x', 'mem'])
      expect(decideCommand(`cat x > /dev/${device}`).decision).toBe('deny')
  })
})

describe('the network in commands', () => {
  const uses: [string, string[]][] = [
    ['curl https://a.example.com/x?y=z', ['a.example.com']],
    [
      'curl -sSL -H "Accept: x" -o out.json -X POST -d x=1 http://A.example.com:8080',
      ['a.example.com'],
    ],
    ['curl a.example.com/x', ['a.example.com']],
    ['curl "https://a.example.com/$X"', ['a.example.com']],
    ['curl https://a.com https://b.com', ['a.com', 'b.com']],
    ['wget -q https://a.com/x -O y', ['a.com']],
    ['curl http://[::1]:80/', ['::1']],
    ['ssh -p 22 me@a.com ls', ['a.com']],
    ['scp x me@a.com:y', ['a.com']],
    ['rsync -a src a.com:/x', ['a.com']],
    ['nc a.com 80', ['a.com']],
    ['exec 3<>/dev/tcp/a.com/80', ['a.com']],
    ['ping -c 1 a.com', ['a.com']],
    ['git clone https://a.com/x.git', ['a.com']],
    ['git push git@a.com:x/y.git', ['a.com']],
    ['pip install --index-url https://a.com/simple x', ['a.com']],
    ['pip install --index-url=https://a.com/simple x', ['a.com']],
    ['git fetch origin', []],
    ['curl "$URL"', []],
    ['curl https://$HOST/x', []],
    ['curl https://good.com@a.com/', []],
    ['curl "https://good.com\\\\@a.com/"', []],
    ['curl https://a.com%2f@b.com/', []],
    ['gh pr list', []],
  ]
  const category = (command: string): Category =>
    command === 'git fetch origin' ? 'git' : 'network'
  test.each(uses)('[POL10] %j reaches %j and nothing else is believed', (command, hosts) => {
    const allow = (host: string[]) =>
      policyOf([{ match: { category: category(command), host }, decision: 'allow' }])
    const known = decideCommand(command, allow(['good.com', 'other.com', ...hosts]))
    const published = command.startsWith('git push')
    expect(known.decision).toBe(hosts.length > 0 && !published ? 'allow' : 'ask')
    expect(decideCommand(command, allow(['other.com'])).decision).toBe('ask')
    for (const host of hosts)
      expect(
        decideCommand(command, policyOf([{ match: { host }, decision: 'deny' }])).decision,
      ).toBe('deny')
  })

  test('[POL10] what is pushed where is no host', () => {
    const policy = policyOf([{ match: { host: 'head' }, decision: 'deny' }])
    expect(decideCommand('git push origin HEAD:main', policy).decision).toBe('ask')
  })

  test('[POL10] an option that sends a request elsewhere is ambiguous', () => {
    const policy = policyOf([{ match: { category: 'network' }, decision: 'allow' }])
    expect(decideCommand('curl https://a.com', policy).decision).toBe('allow')
    for (const option of [
      '-x b.com:80',
      '--proxy b.com',
      '--resolve a.com:443:1.2.3.4',
      '--connect-to x',
      '-K cfg',
    ])
      expect(decideCommand(`curl ${option} https://a.com`, policy).reason).toContain('ambiguous')
    expect(decideCommand('ssh -o ProxyCommand=x a.com', policy).reason).toContain('ambiguous')
    expect(decideCommand('rsync -e x . a.com:y', policy).reason).toContain('ambiguous')
  })
})
