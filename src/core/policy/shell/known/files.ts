import { readKnownTable } from './table.ts'

/** Programs that work on files and folders. */
export const files =
  readKnownTable(`cat tac|AbeEnstTuvr|s|number show-ends show-all squeeze-blank number-nonblank show-tabs show-nonprinting
#head|qvz|nc|lines bytes quiet silent verbose zero-terminated
#tail|fFqvzr|ncs|lines bytes follow retry quiet silent verbose sleep-interval pid
ls dir vdir ll la|aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ1|wIT|all almost-all color human-readable recursive reverse sort time time-style group-directories-first directory inode size classify full-time si ignore hide dereference no-group numeric-uid-gid zero format
exa eza lsd|aAlLhTrRsgGdF1|LsI|all long tree level icons git header color group-directories-first ignore-glob git-ignore sort
tree|adfiLpsughDFrtUvXJCnqNQ|LIPHTo|dirsfirst noreport prune filelimit du si gitignore charset matchdirs ignore-case
wc|clLmw||lines words bytes chars max-line-length
stat|LftZ|cf|format printf dereference file-system terse
file|bikLhzsrNv0|fFmeP|brief mime mime-type mime-encoding dereference uncompress
du|abcDhHkLlmPsSx0|dtBX|human-readable summarize all apparent-size max-depth total exclude time bytes threshold block-size one-file-system si
df|aBhHiklPTv|tx|human-readable all local type total si output inodes
mkdir|pv|m|parents verbose mode
rmdir|pv||parents verbose ignore-fail-on-non-empty
touch|acfmh|drt|no-create date reference time
rm unlink|fiIrRdv||force recursive interactive verbose dir one-file-system preserve-root
mv|fbinTuv|tS|force interactive no-clobber verbose target-directory update backup suffix no-target-directory strip-trailing-slashes
cp|abdfHiLlnPpRrsTuvx|tS|archive recursive force interactive no-clobber preserve parents verbose update target-directory link symbolic-link no-target-directory backup suffix dereference no-dereference sparse reflink attributes-only
install|bcCdDpsTv|gmotS|directory mode verbose target-directory owner group compare preserve-timestamps
ln|bdfFiLnPrsTv|tS|symbolic force relative no-dereference verbose target-directory no-target-directory backup
chmod|cfvR||changes quiet silent verbose recursive reference preserve-root
chown chgrp|cfhvRHLP||changes recursive verbose no-dereference reference from
realpath readlink|efmnqsvzLP||canonicalize canonicalize-existing canonicalize-missing relative-to relative-base no-symlinks quiet zero
basename dirname|az|s|multiple suffix zero
mktemp|dqtu|p|directory dry-run quiet suffix tmpdir
diff|abBcdeEilnNpqrstTuwyZ|CUWIxXFSD|unified brief recursive ignore-all-space ignore-space-change ignore-blank-lines side-by-side color new-file exclude context width suppress-common-lines strip-trailing-cr label text report-identical-files no-dereference ignore-case minimal speed-large-files from-file to-file normal
cmp|bls|in|silent quiet verbose bytes print-bytes
sum cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum|bctwz|al|binary check text quiet status warn strict tag ignore-missing zero algorithm
shasum|bctp0Usw|a|algorithm check binary text status quiet
base64 base32|di|w|decode ignore-garbage wrap
xxd|abcCdEeipPrRu|cglosn|
od hexdump hd|bcdfilosxvCe|AjNStwns|address-radix format skip-bytes read-bytes width output-duplicates canonical
strings|afowd|neT|all bytes radix print-file-name encoding
tar gtar bsdtar|cxtruAvzjJZapkmOSUwhlBiosdWn|fCXTbLHgNVK|create extract list file directory gzip xz bzip2 zstd verbose exclude exclude-from exclude-vcs exclude-vcs-ignores strip-components strip transform no-same-owner no-same-permissions same-owner keep-old-files overwrite wildcards anchored null sort mtime owner group numeric-owner preserve-permissions auto-compress append update diff totals skip-old-files keep-newer-files touch format one-file-system dereference get to-stdout files-from no-recursion warning mode no-overwrite-dir
gzip gunzip zcat bzip2 bunzip2 bzcat xz unxz xzcat zstd unzstd zstdcat lz4 pigz|acdfhklLnNqrtvV0123456789Tm|STMob|stdout to-stdout decompress uncompress keep force quiet verbose test best fast recursive suffix name no-name threads
unzip|aBCDfjLlnopqtuvVXKZz1|dxP|
zip|0123456789acdDeEfFgjklmnNoqrRSuvXyz|bntxi|recurse-paths quiet exclude include junk-paths update
split|dxuve|abClnt|lines bytes number numeric-suffixes suffix-length additional-suffix verbose
sync|df||
ncdu|xqr|o|
7z 7za|||
rsync|aAbcCdDEghHiIkKlLmnNoOpPqrRsStuUvWxXyz0|fMTB|archive verbose recursive exclude include delete dry-run progress checksum update existing ignore-existing stats human-readable links copy-links times perms owner group partial compress exclude-from delete-after delete-excluded delete-before itemize-changes info mkpath relative filter size-only no-perms no-owner no-group no-times whole-file max-size min-size inplace remove-source-files del
patch|ENRbfstul|piVdBz|strip input forward reverse dry-run silent quiet batch force backup verbose unified directory no-backup-if-mismatch remove-empty-files
tee|aip||append ignore-interrupts
truncate|co|sr|size reference no-create
pathchk|pP||
which type whereis|abefimpsP||all
locate|bceilLqwS|n|
`)
