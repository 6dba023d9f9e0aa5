import { readKnownTable } from './table.ts'

/** Shell builtins and programs that tell about the machine, or look for files. */
export const system = readKnownTable(`: true false|||
[ test|abcdefghkLNOprstuwxzGSnov!|n|eq ne lt le gt ge nt ot ef
cd pushd popd dirs|LPenlpv||
pwd|LP||
exit return break continue shift|||
set|abefhkmnptuvxBCHP|oO|
shopt|pqsu|o|
printf|neE|v|
export readonly declare typeset local|aAfFgilnprtux||
unset|fvn||
read|ersa|adinNptu|
mapfile readarray|t|cdnOsu|
wait|nf|p|
jobs|lnprs||
fg bg disown|ahr||
kill|lLpq|sn|signal list
umask ulimit|SpacdefilmnpqrstuvxHRT||
hash|ldrt|p|
trap|lp||
alias unalias|pa||
getopts|||
let|||
times|||
date|uRI|drI|date iso-8601 rfc-3339 rfc-2822 utc universal reference
sleep usleep|||
uname arch|amnprsvio||all kernel-name machine
hostname|fisdAIy||fqdn short
whoami logname tty users groups|s||
id|agGnruzZ||user group groups name real
nproc|||all ignore
uptime free vmstat lscpu lsblk lsmem|abeghklmopsStvwyJPr|csNo|human mega giga json
env printenv|i0v|uCS|null unset
ps|AaCcefFHhjlmNoptTuUvwxZs|ogpuqtCkN|forest sort pid ppid user no-headers no-heading
pgrep pidof|acfilnovxLsz|dgGPstuU|full list-name list-full exact newest oldest count
top htop|bcHiS1|dnopuUsE|
lsof|abCFhlNnOPRtUvVX|ciupsdDgTS|
ss netstat|aAlntupeimoHsrx46ac|fDK|listening tcp udp processes numeric all
find gfind|HLPEXdsx|OD|name iname path ipath wholename iwholename regex iregex regextype type xtype size empty perm mtime mmin atime amin ctime cmin newer newermt anewer cnewer user group uid gid nouser nogroup links inum samefile lname maxdepth mindepth depth xdev mount daystart follow noleaf prune print print0 printf ls quit true false not and or a o readable writable executable delete exec execdir ok okdir warn nowarn files0-from
fd fdfind|aFgHIiLlpsuv0q1|cdEejtxXSo|hidden no-ignore no-ignore-vcs glob regex ignore-case case-sensitive absolute-path list-details follow full-path extension exclude type max-depth min-depth exact-depth exec exec-batch size changed-within changed-before color threads max-results print0 fixed-strings strip-cwd-prefix unrestricted
man info apropos whatis tldr|kfawW|s|
history|||
clear reset tput stty|||
locale localectl|ackm||all-locales
getconf getent|||
uuidgen|rt||random time
openssl|av||hex base64
tmux screen|||
ln|||
logger wall|||
`)
