#!/bin/sh
# Where things are, in one page.
git ls-files | awk -F/ '{ count[$1 (NF > 1 ? "/" : "")]++ } END { for (name in count) print count[name], name }' | sort -rn | head -n 40
