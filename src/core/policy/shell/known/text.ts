import { readKnownTable } from './table.ts'

/** Programs that read and change text. Scripts in their arguments are read elsewhere. */
export const text =
  readKnownTable(`#grep egrep fgrep zgrep rgrep|abBcEFGHhiIlLnNoPqrRsTuUvVwxyzZ|eABCmdDf|extended-regexp fixed-strings basic-regexp perl-regexp regexp file ignore-case no-ignore-case invert-match word-regexp line-regexp count color colour files-without-match files-with-matches max-count only-matching quiet silent no-messages byte-offset with-filename no-filename label line-number initial-tab null after-context before-context context group-separator no-group-separator text binary-files devices directories exclude exclude-from exclude-dir include recursive dereference-recursive line-buffered null-data binary
#rg|abFHhIiLlNnoPpqSsUuvwxz0c.|eABCdDEgjMmrtTf|regexp file after-context before-context context glob iglob type type-not type-list files files-with-matches files-without-match fixed-strings ignore-case smart-case case-sensitive invert-match line-number no-line-number max-count max-depth maxdepth max-columns max-filesize multiline multiline-dotall no-heading heading color colors column count count-matches only-matching replace word-regexp line-regexp hidden no-hidden no-ignore no-ignore-vcs no-ignore-parent no-filename with-filename json sort sortr stats follow pcre2 text null threads trim vimgrep pretty quiet no-messages passthru context-separator unrestricted no-config encoding debug crlf null-data byte-offset one-file-system ignore-file
#ag ack|acfgHhiLlnoQRrsSuvwzU0|ABCGmp|ignore-case literal files-with-matches nocolor nogroup hidden ignore ignore-dir type count follow js ts python go rust html css json yaml
sed gsed|EnruszsbiI|efliI|expression quiet silent regexp-extended in-place null-data separate follow-symlinks posix debug line-length unbuffered sandbox
awk gawk mawk nawk|bcCghnOprSstV|FvfeLE|field-separator assign posix re-interval traditional lint sandbox csv
sort gsort|bcCdfghiMmnRrsuVz|kotST|key field-separator numeric-sort reverse unique output ignore-case human-numeric-sort version-sort stable check ignore-leading-blanks random-sort general-numeric-sort month-sort zero-terminated merge dictionary-order parallel buffer-size
uniq|cdDiuz|fsw|count repeated unique ignore-case skip-fields skip-chars check-chars all-repeated group zero-terminated
cut|nsz|bcdf|delimiter fields characters bytes complement only-delimited output-delimiter zero-terminated
tr|cCdst||complement delete squeeze-repeats truncate-set1
#column|tnexLJR|csoNHRETrdl|table separator output-separator fillrows columns json table-columns
paste|sz|d|delimiters serial zero-terminated
join|iz|12aetovj|header check-order nocheck-order ignore-case
comm|123z||check-order nocheck-order output-delimiter total zero-terminated
#fold fmt|bscut|wpg|width spaces bytes
nl|p|bdfhilnsvw|body-numbering number-format number-width number-separator starting-line-number line-increment
rev|||
expand unexpand|ai|t|tabs initial
#pr|acdfFmntTvJ|eDhilNoSsWw|
tsort shuf|ezr|ino|echo input-range head-count output repeat zero-terminated random-source
csplit|kqsz|fbn|
echo print|neE||
expr|||
seq|w|fs|format separator equal-width
yes|||
jq gojq jaq|acCeijMnrRsSj0|fL|arg argjson slurpfile rawfile args jsonargs raw-output raw-input compact-output null-input slurp exit-status sort-keys tab indent color-output monochrome-output ascii-output join-output stream seq from-file raw-output0 unbuffered
yq|aCMPerinNsvVcSyY|opIf|inplace output-format input-format prettyPrint no-doc indent colors no-colors null-input raw-output exit-status unwrapScalar yaml-output arg
xmllint|||format noout xpath nonet recover html valid pretty noblanks
xmlstarlet|||
less more|EeFiIJMmNnrRSsXfGgwWcd|pxbhjyztPD|quit-if-one-file LINE-NUMBERS RAW-CONTROL-CHARS chop-long-lines no-init ignore-case
bat batcat|AfnpPuS|HlmrTs|paging language line-range plain number style color theme show-all decorations wrap highlight-line list-languages list-themes diff
colordiff delta diffstat|pucwlkKmqrvbCf|nNsSwx|
dos2unix unix2dos|bfknoqsl|n|
iconv|cls|fto|from-code to-code output list
envsubst|v||variables
cloc tokei scc|||by-file exclude-dir include-lang json csv md quiet vcs sum-one not-match-d not-match-f exclude-ext
pandoc|s|ftorwHABVM|from to output standalone toc metadata number-sections wrap
`)
