#!/bin/sh
# Ends with 1 if something is not committed.
changed=$(git status --porcelain --untracked-files=no)
[ -z "$changed" ] && echo "Nothing uncommitted on $(git rev-parse --abbrev-ref HEAD)" && exit 0
printf 'Not committed:\n%s\n' "$changed" >&2
exit 1
