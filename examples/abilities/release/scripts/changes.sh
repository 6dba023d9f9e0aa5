#!/bin/sh
last=$(git describe --tags --abbrev=0 2>/dev/null)
if [ -n "$last" ]; then
  echo "Since $last:"
  git log --no-merges --format='- %s (%h)' "$last"..HEAD
else
  echo 'The first release. The last commits:'
  git log --no-merges --format='- %s (%h)' -n 50
fi
